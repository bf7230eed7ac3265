"""Template status: combines the reports of all members into the status of a template [resource-interpreter]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.controllers.reads.interpreted_bindings import RULES_CHANGED, bindings_of_kind
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Put
from controlplane.engine.state import State, Watch
from controlplane.interpret.waited_conditions import with_conditions
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.propagation import aggregation, bindings
from controlplane.settings import Settings
from controlplane.wire import builtin
from controlplane.wire.structural import with_required


class TemplateStatusSnapshot(Struct, frozen=True):
    """A template and its binding. `binding` None: it was deleted, so that no member has a copy."""

    subject: Template
    binding: Binding | None


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A template is due when the aggregated status of its binding changed, or the binding is for a new template now.

    It is also due when a binding with such a status is gone, because no member has a copy then.
    """
    if old is None:
        return
    if new is None:
        if old.status.aggregated_status:
            yield bindings.template_ref(old)
        return
    recreated = old.spec.resource.uid != new.spec.resource.uid
    if recreated or not same(old.status.aggregated_status, new.status.aggregated_status):
        yield bindings.template_ref(new)


class TemplateStatus(Controller):
    """Key: a template. Writes its status, if there is a rule for its kind."""

    name: ClassVar[str] = "template_status"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = PropagatedKinds()
    watches: ClassVar[tuple[Watch, ...]] = (
        tuple(Watch(kind, _binding_changed) for kind in kinds.BINDINGS) + RULES_CHANGED
    )
    owns: ClassVar[Ownership] = Ownership({"*": ("status",)})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[TemplateStatusSnapshot | None]:
        templates = state.get(refs)
        found = state.get([bindings.binding_ref(ref) for ref in refs])
        return [
            TemplateStatusSnapshot(template, found.get(bindings.binding_ref(ref)))
            if (template := templates.get(ref)) is not None
            else None
            for ref in refs
        ]

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the templates of the kind whose rules changed."""
        found, cursor = bindings_of_kind(state, origin, after=after, limit=limit)
        return [bindings.template_ref(binding) for binding in found], cursor

    def decide(
        self, snapshot: TemplateStatusSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        template, binding = snapshot.subject, snapshot.binding
        items = () if binding is None else binding.status.aggregated_status
        interpreter = interpret.interpreter_for(template.api_version, template.kind)
        rule = interpreter.aggregate
        if rule is None or (not items and not template.status):
            return NOTHING
        doc, counted = _document(template), aggregation.counting(items, final=interpreter.final)
        placed = 0 if binding is None else sum(target.replicas for target in binding.spec.clusters)
        waited = with_conditions(doc, rule(doc, counted, now), counted, placed=placed, now=now)
        status = _complete(template, waited.status)
        if same(status, template.status):
            return Decision(wake_at=waited.wake_at) if waited.wake_at else NOTHING
        change = Put(replace(template, status=status), template)
        return Decision(changes=(change,), wake_at=waited.wake_at, reason="AggregateStatus")


def _complete(template: Template, status: dict[str, Any]) -> dict[str, Any]:
    """Return a status with the zero values that the schema of its kind requires. An empty status stays empty.

    Sums and member reports leave zero out. Typed clients send back what they read, and Kubernetes refuses it without.
    """
    api_version, kind = template.api_version, template.kind
    group, _, version = api_version.rpartition("/")
    if not status or not builtin.is_builtin(group, version, kind):
        return status
    schema = builtin.schema(group, version, kind).property("status")
    found: dict[str, Any] = with_required(status, schema)
    return found


def _document(template: Template) -> dict[str, Any]:
    """Return a template as the rules of kinds read it.

    It has no metadata that each write changes, because an answer of a script or webhook counts until then.
    """
    metadata = template.metadata
    return {
        "apiVersion": template.api_version,
        "kind": template.kind,
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "generation": metadata.generation,
            "labels": metadata.labels,
            "annotations": metadata.annotations,
        },
        **template.content,
        "spec": template.spec,
        "status": template.status,
    }

"""Dependencies: keeps the attached bindings of what a workload needs, gate PropagateDeps (semantics 2.15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane import bindings, dependencies
from controlplane.controllers.controller import Controller, Ownership
from controlplane.controllers.placed import placed_on
from controlplane.decision import NOTHING, Decision, Delete, Put, deleting
from controlplane.kinds import BINDINGS
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.meta import Ref
from controlplane.settings import Settings
from controlplane.state import State, Watch

FOLLOWED = frozenset({"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "Service"})


class Family(msgspec.Struct, frozen=True):
    """A workload's binding (None: gone), its template, what it needs that exists, and the bindings of that."""

    ref: Ref
    parent: Binding | None
    template: Template | None
    objects: dict[Ref, Template]
    attached: dict[Ref, Binding]  # of what it needs, and those that still say it needs them

    @property
    def subject(self) -> Binding | None:
        return self.parent


def _binding(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    present = new or old
    if present is None or not any(one is not None and one.spec.propagate_deps for one in (old, new)):
        return ()
    same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
    return () if same else (present.ref,)


def _template(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """What a workload says concerns its binding; an object that comes or goes those that may need it."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if present.kind not in FOLLOWED and old is not None and new is not None and old.content != new.content:
        return (bindings.binding_ref(present.ref),)
    return ()


def _needed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    return (present.ref,) if present.kind in FOLLOWED and (old is None or new is None) else ()


class Dependencies(Controller):
    """Key: the binding of a workload with propagateDeps."""

    name = "dependencies"
    group = "propagation"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding) for kind in BINDINGS),
        Watch("*", _template),
        Watch("*", _needed, fan_out=True),
    )
    owns = Ownership(
        dict.fromkeys(BINDINGS, ("create", "delete", "metadata.labels", "metadata.annotations", "spec.required_by"))
    )
    batch = 100

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """An object concerns the workloads that name it."""
        return placed_on(state, [str(origin)], index="depends", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Family | None]:
        parents: dict[Ref, Binding] = state.get(refs)
        templates: dict[Ref, Template] = state.get([bindings.template_ref(one) for one in parents.values()])
        wanted: dict[Ref, list[Ref]] = {}
        for ref, parent in parents.items():
            template = templates.get(bindings.template_ref(parent))
            follows = template is not None and parent.spec.propagate_deps
            wanted[ref] = dependencies.needed(template) if follows and template is not None else []
        named = sorted({one for ones in wanted.values() for one in ones})
        objects: dict[Ref, Template] = state.get(named)
        known: dict[Ref, Binding] = state.get([bindings.binding_ref(one) for one in named])
        owners = [f"{ref.namespace}/{ref.name}" for ref in refs]
        still = {kind: state.by_index(kind, "required", owners) for kind in BINDINGS}
        families: list[Family | None] = []
        for ref in refs:
            mine = {one.ref: one for kind in BINDINGS for one in still[kind].get(f"{ref.namespace}/{ref.name}", ())}
            needs = wanted.get(ref, [])
            mine |= {at: known[at] for one in needs if (at := bindings.binding_ref(one)) in known}
            template = templates.get(bindings.template_ref(parents[ref])) if ref in parents else None
            families.append(
                Family(ref, parents.get(ref), template, {one: objects[one] for one in needs if one in objects}, mine)
            )
        return families

    def decide(self, snapshot: Family, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        parent = snapshot.parent
        live = parent is not None and parent.metadata.deletion_timestamp is None
        follows = live and parent is not None and parent.spec.propagate_deps and settings.gate("PropagateDeps")
        changes: list[Put | Delete] = []
        needs = dependencies.needed(snapshot.template) if follows and snapshot.template is not None else []
        if parent is not None and live:
            told = dependencies.annotated(parent, needs)
            changes += [Put(told, parent)] if told is not parent else []
        wanted = {bindings.binding_ref(ref): snapshot.objects[ref] for ref in needs if ref in snapshot.objects}
        for ref, attached in snapshot.attached.items():
            if attached.metadata.deletion_timestamp is not None:
                continue
            clusters = dependencies.places(parent) if ref in wanted and parent is not None else None
            new = dependencies.required(attached, snapshot.ref, clusters)
            if new is attached:
                continue
            changes.append(deleting(attached, now=now) if dependencies.idle(new) else Put(new, attached))
        for ref, template in wanted.items():
            if ref not in snapshot.attached and parent is not None and template.metadata.deletion_timestamp is None:
                changes.append(Put(dependencies.created(template, parent, now=now), None))
        return Decision(changes=tuple(changes), reason="SyncDependencies") if changes else NOTHING

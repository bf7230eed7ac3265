"""Dependencies: propagates the objects that a workload needs together with the workload [dependency-propagation].

An object that is needed, for example a ConfigMap, gets an attached binding. It names the bindings of the workloads that
need the object, and the object follows them to their clusters. The gate PropagateDeps switches this on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads import paging
from controlplane.controllers.reads.fleet_state import FLEET, PROPAGATE_DEPS
from controlplane.controllers.reads.interpreted_bindings import RULES_CHANGED, all_bindings, bindings_of_kind, is_rules
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import Selection, State, Watch
from controlplane.interpret import INTERPRETERS, interpreter_for
from controlplane.interpret.customized import for_each
from controlplane.interpret.interpreter import Dependency
from controlplane.kinds import BINDINGS, FAILOVER_CONFIGURATION, SELECTED
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import FleetState
from controlplane.kinds.template import Template
from controlplane.propagation import attached_bindings, bindings
from controlplane.settings import Settings

# What built-in rules name. A rule of a user may name objects of any kind, by name or by label.
NEEDED_KINDS = frozenset({"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "Service", "EndpointSlice"})
SELECTED_BY_LABEL = frozenset({"EndpointSlice"})  # of those, the kinds that workloads may select by label

NEEDED = "Needed"
"""The name of the fan-out of all objects that workloads may need."""


class DependenciesSnapshot(msgspec.Struct, frozen=True):
    """The binding of a workload (None: deleted), its template, and what the workload needs."""

    ref: Ref
    parent: Binding | None
    template: Template | None
    needs: tuple[Dependency, ...]
    objects: tuple[Template, ...]  # those of the needed objects that exist
    attached: dict[Ref, Binding]  # bindings of the needed objects, and bindings that still name this workload
    others: dict[Ref, Binding]  # bindings of all workloads that need the same objects
    error: Exception | None = None  # why it is not known what the workload needs

    @property
    def subject(self) -> Binding | None:
        return self.parent


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """The binding of a workload is due when its spec changed, or when a binding attached for it was deleted."""
    present = new or old
    if old is not None and new is None and old.spec.required_by:
        return (old.ref, *attached_bindings.needing(old))
    if present is None or not any(side is not None and side.spec.propagate_deps for side in (old, new)):
        return ()
    same = old is not None and new is not None and old.metadata.generation == new.metadata.generation
    return () if same else (present.ref,)


def _workload_changed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """The binding of a workload is due when the content of the workload changed.

    Rules of users also read labels and annotations.
    """
    if old is None or new is None or not (new.has_other_content_than(old) or _rules_see_change(old, new)):
        return ()
    needs_nothing = new.kind in NEEDED_KINDS and interpreter_for(new.api_version, new.kind).dependencies is None
    return () if needs_nothing else (bindings.binding_ref(new.ref),)


def _rules_see_change(old: Template, new: Template) -> bool:
    """Test whether labels or annotations changed, and rules of users for dependencies may read them."""
    before, after = old.metadata, new.metadata
    same = before.labels == after.labels and before.annotations == after.annotations
    return not same and INTERPRETERS.any_for_dependencies


def _needed_object_changed(old: Template | None, new: Template | None) -> Iterable[Ref]:
    """The workloads that may need an object are due when it was created or deleted, or its labels changed."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if not _may_be(present.kind, NEEDED_KINDS):
        return ()
    if old is None or new is None:
        return (present.ref,)
    relabelled = old.metadata.labels != new.metadata.labels
    return (present.ref,) if relabelled and _may_be(present.kind, SELECTED_BY_LABEL) else ()


def _gate_changed(old: FleetState | None, new: FleetState | None) -> Iterable[Ref]:
    """All workloads are due when the gate is switched: those that moved while it was off lack what they need.

    controllers.fleet_watch stores it: in FailoverConfiguration it is switched at run time, in the environment it is by
    a restart.
    """
    switched = old is not None and new is not None and old.dependencies and old.dependencies != new.dependencies
    return (FLEET,) if switched else ()


def _may_be(kind: str, named_by_built_in_rules: frozenset[str]) -> bool:
    """Test whether rules may name objects of a kind: any kind while there is a rule of a user for dependencies."""
    return kind in named_by_built_in_rules or INTERPRETERS.any_for_dependencies


def _named_as(origin: Ref) -> Iterator[str]:
    """Yield the texts by which bindings name an object that their workloads need, alone or with others of its kind."""
    yield str(origin)
    if _may_be(origin.kind.rpartition("/")[2], SELECTED_BY_LABEL):
        yield str(origin._replace(name=SELECTED))


class Dependencies(Controller):
    """Key: the binding of a workload with propagateDeps. Writes the attached bindings."""

    name = "dependencies"
    group = "propagation"
    keys = BINDINGS
    watches = (
        *(Watch(kind, _binding_changed) for kind in BINDINGS),
        Watch("*", _workload_changed),
        Watch("*", _needed_object_changed, fan_out=True),
        Watch("row/FleetState", _gate_changed, fan_out=True),
        *RULES_CHANGED,
    )
    owns = Ownership(
        dict.fromkeys(
            BINDINGS,
            (
                *("create", "delete", "metadata.labels", "metadata.annotations"),
                *("spec.required_by", "spec.replicas", "spec.replica_requirements"),
                *("spec.conflict_resolution", "spec.preserve_resources_on_deletion"),
            ),
        )
    )
    batch = 100

    def fan_out_of(self, origin: Ref) -> str:
        """Objects that may be needed are expanded together: thousands are created at once, and few of them are needed.
        Rules and the settings are not."""
        return str(origin) if is_rules(origin) or origin.kind == FAILOVER_CONFIGURATION else NEEDED

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        """Return the bindings of the workloads that name one of some objects, or that select objects of its kind by
        label; for changed rules, the bindings of the workloads that they interpret; for a gate that was switched, those
        of all workloads with propagateDeps.

        The cursor of objects is a reference. One of an earlier version begins with a number, and the search begins
        again.
        """
        if origins[0].kind == FAILOVER_CONFIGURATION:
            found_all, cursor = all_bindings(state, after=after, limit=limit)
            return [binding.ref for binding in found_all if binding.spec.propagate_deps], cursor
        if is_rules(origins[0]):
            of_kind, cursor = bindings_of_kind(state, origins[0], after=after, limit=limit)
            return [binding.ref for binding in of_kind if binding.spec.propagate_deps], cursor
        values = sorted({value for origin in origins for value in _named_as(origin)})
        begin = "" if after[:1].isdigit() else after
        found = list(paging.next_bindings(state, "depends", values, after=begin, limit=limit))
        return found, str(found[-1]) if len(found) >= limit else None

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[DependenciesSnapshot | None]:
        parents: dict[Ref, Binding] = state.get(refs)
        templates: dict[Ref, Template] = state.get([bindings.template_ref(parent) for parent in parents.values()])
        following = {
            ref: template
            for ref, parent in parents.items()
            if parent.spec.propagate_deps and (template := templates.get(bindings.template_ref(parent))) is not None
        }
        needs: dict[Ref, list[Dependency]] = {}
        errors: dict[Ref, Exception] = {}
        for ref, result in zip(following, for_each(attached_bindings.needed, following.values()), strict=True):
            if isinstance(result, Exception):
                errors[ref] = result
            else:
                needs[ref] = result
        found = _NeededObjects(state, [need for ones in needs.values() for need in ones])
        owners = [f"{ref.namespace}/{ref.name}" for ref in refs]
        requiring = {kind: state.by_index(kind, "required", owners) for kind in BINDINGS}
        attached: dict[Ref, dict[Ref, Binding]] = {}
        for ref in refs:
            naming = {
                binding.ref: binding
                for kind in BINDINGS
                for binding in requiring[kind].get(f"{ref.namespace}/{ref.name}", ())
            }
            attached[ref] = naming | found.bindings(needs.get(ref, ()))
        sharing = {
            other
            for ones in attached.values()
            for binding in ones.values()
            for other in attached_bindings.needing(binding)
        }
        missing = sorted(sharing - parents.keys())
        others: dict[Ref, Binding] = {**parents, **(state.get(missing) if missing else {})}
        return [
            DependenciesSnapshot(
                ref,
                parents.get(ref),
                templates.get(bindings.template_ref(parents[ref])) if ref in parents else None,
                tuple(needs.get(ref, ())),
                tuple(found.objects(needs.get(ref, ()))),
                attached[ref],
                others,
                errors.get(ref),
            )
            for ref in refs
        ]

    def decide(
        self, snapshot: DependenciesSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        if snapshot.error is not None:
            raise snapshot.error
        parent = snapshot.parent
        alive = parent is not None and parent.metadata.deletion_timestamp is None
        if alive and snapshot.template is None:
            return NOTHING  # `lifeboat import` writes bindings first: what the workload needs is not known yet
        follows = alive and parent is not None and parent.spec.propagate_deps
        if follows and not settings.gate(PROPAGATE_DEPS):
            return NOTHING  # what runs still needs what it has
        changes: list[Put | Delete] = []
        events: list[Event] = []
        if parent is not None and alive:
            annotated = attached_bindings.annotated(parent, snapshot.needs if follows else ())
            if annotated is not parent:
                changes.append(Put(annotated, parent))
                events += _dependency_events(snapshot) if follows else []
        wanted = {bindings.binding_ref(template.ref): template for template in snapshot.objects} if follows else {}
        for ref, attached in snapshot.attached.items():
            clusters = attached_bindings.places(parent) if ref in wanted and parent is not None else None
            new = attached_bindings.required(attached, snapshot.ref, clusters)
            if attached.metadata.deletion_timestamp is not None:
                if clusters is not None and new is not attached:
                    changes.append(Put(new, attached))  # so that its removal makes this workload due
                continue
            if new is not attached and attached_bindings.idle(new):
                changes.append(deleting(attached, now=now))
                continue
            policy = attached_bindings.agreed(_needing_bindings(snapshot, new))
            new = attached_bindings.treated(new, policy)
            if new is attached:
                continue
            changes.append(Put(new, attached))
            conflict = attached_bindings.conflict_of(new)
            if conflict and conflict != attached_bindings.conflict_of(attached):
                message = (
                    f"Dependency policy conflict detected: {conflict}. "
                    "Overwrite and true are used. Make the policies equal."
                )
                events.append(Event(attached, "DependencyPolicyConflict", message, warning=True))
        for ref, template in wanted.items():
            if ref not in snapshot.attached and parent is not None and template.metadata.deletion_timestamp is None:
                changes.append(Put(attached_bindings.created(template, parent, now=now), None))
        if not changes:
            return NOTHING
        return Decision(changes=tuple(changes), events=tuple(events), reason="SyncDependencies")


def _dependency_events(snapshot: DependenciesSnapshot) -> list[Event]:
    """Return the Events of a workload whose needed objects changed."""
    if snapshot.template is None or snapshot.parent is None:
        return []
    needed = ", ".join(f"{need.kind} {need.name or 'by label'}" for need in snapshot.needs)
    found, synced = f"Get dependencies({needed or 'none'}) succeed.", "Sync schedule results to dependencies succeed."
    return [
        Event(snapshot.template, "GetDependenciesSucceed", found, step=True),
        Event(snapshot.parent, "SyncScheduleResultToDependenciesSucceed", synced, step=True),
    ]


class _NeededObjects:
    """The objects that the workloads of a batch need, as far as they exist, and their bindings. Makes three queries."""

    def __init__(self, state: State, needs: Sequence[Dependency]) -> None:
        selections = attached_bindings.selections(needs)
        self._named: dict[Ref, Template] = state.get(sorted(set(attached_bindings.named(needs))))
        self._selected: dict[Selection, Sequence[Template]] = state.selected(selections) if selections else {}
        everything = {*self._named, *(template.ref for ones in self._selected.values() for template in ones)}
        self._bindings: dict[Ref, Binding] = state.get(sorted({bindings.binding_ref(ref) for ref in everything}))

    def objects(self, needs: Sequence[Dependency]) -> Iterator[Template]:
        """Yield the existing objects that a workload needs, without duplicates."""
        found = [self._named[ref] for ref in attached_bindings.named(needs) if ref in self._named]
        found += [
            template
            for selection in attached_bindings.selections(needs)
            for template in self._selected.get(selection, ())
        ]
        yield from {template.ref: template for template in found}.values()

    def bindings(self, needs: Sequence[Dependency]) -> dict[Ref, Binding]:
        """Return the existing bindings of the objects that a workload needs."""
        refs = (bindings.binding_ref(template.ref) for template in self.objects(needs))
        return {ref: self._bindings[ref] for ref in refs if ref in self._bindings}


def _needing_bindings(snapshot: DependenciesSnapshot, attached: Binding) -> list[Binding]:
    """Return the present bindings of the workloads that need the object of an attached binding."""
    return [snapshot.others[ref] for ref in attached_bindings.needing(attached) if ref in snapshot.others]

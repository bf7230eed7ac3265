"""Dependencies: keeps the attached bindings of what a workload needs, gate PropagateDeps (semantics 2.15)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.controllers.reads.placed import placed_on
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import Selection, State, Watch
from controlplane.interpret.interpreter import Dependency
from controlplane.kinds import BINDINGS, SELECTED
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.propagation import attached_bindings, bindings
from controlplane.settings import Settings

FOLLOWED = frozenset({"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim", "Service", "EndpointSlice"})
CHOSEN = frozenset({"EndpointSlice"})  # of those, what workloads may choose by label


class Family(msgspec.Struct, frozen=True):
    """A workload's binding (None: gone), its template, what it needs that exists, and the bindings of that."""

    ref: Ref
    parent: Binding | None
    template: Template | None
    needs: tuple[Dependency, ...]
    objects: tuple[Template, ...]
    attached: dict[Ref, Binding]  # of what it needs, and those that still say it needs them
    others: dict[Ref, Binding]  # that need the same

    @property
    def subject(self) -> Binding | None:
        return self.parent


def _binding(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A workload's binding is due when it changes, and when what was attached for it has gone: it may need it again."""
    present = new or old
    if old is not None and new is None and old.spec.required_by:
        return (old.ref, *attached_bindings.needing(old))
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
    if present.kind not in FOLLOWED:
        return ()
    if old is None or new is None:
        return (present.ref,)
    return (present.ref,) if present.kind in CHOSEN and old.metadata.labels != new.metadata.labels else ()


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
        dict.fromkeys(
            BINDINGS,
            (
                *("create", "delete", "metadata.labels", "metadata.annotations"),
                *("spec.required_by", "spec.conflict_resolution", "spec.preserve_resources_on_deletion"),
            ),
        )
    )
    batch = 100

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """An object concerns the workloads that name it, and those that choose among its kind by label."""
        chosen = [str(origin._replace(name=SELECTED))] if origin.kind.rpartition("/")[2] in CHOSEN else []
        return placed_on(state, [str(origin), *chosen], index="depends", after=after, limit=limit)

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Family | None]:
        parents: dict[Ref, Binding] = state.get(refs)
        templates: dict[Ref, Template] = state.get([bindings.template_ref(one) for one in parents.values()])
        needs: dict[Ref, list[Dependency]] = {}
        for ref, parent in parents.items():
            template = templates.get(bindings.template_ref(parent))
            follows = template is not None and parent.spec.propagate_deps
            needs[ref] = attached_bindings.needed(template) if follows and template is not None else []
        found = _Found(state, [one for ones in needs.values() for one in ones])
        owners = [f"{ref.namespace}/{ref.name}" for ref in refs]
        still = {kind: state.by_index(kind, "required", owners) for kind in BINDINGS}
        attached: dict[Ref, dict[Ref, Binding]] = {}
        for ref in refs:
            mine = {one.ref: one for kind in BINDINGS for one in still[kind].get(f"{ref.namespace}/{ref.name}", ())}
            attached[ref] = mine | found.bindings(needs.get(ref, ()))
        sharing = {
            other for ones in attached.values() for one in ones.values() for other in attached_bindings.needing(one)
        }
        missing = sorted(sharing - parents.keys())
        others: dict[Ref, Binding] = {**parents, **(state.get(missing) if missing else {})}
        return [
            Family(
                ref,
                parents.get(ref),
                templates.get(bindings.template_ref(parents[ref])) if ref in parents else None,
                tuple(needs.get(ref, ())),
                tuple(found.objects(needs.get(ref, ()))),
                attached[ref],
                others,
            )
            for ref in refs
        ]

    def decide(self, snapshot: Family, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        parent = snapshot.parent
        live = parent is not None and parent.metadata.deletion_timestamp is None
        follows = live and parent is not None and parent.spec.propagate_deps and settings.gate("PropagateDeps")
        changes: list[Put | Delete] = []
        events: list[Event] = []
        if parent is not None and live:
            told = attached_bindings.annotated(parent, snapshot.needs if follows else ())
            if told is not parent:
                changes.append(Put(told, parent))
                events += _told(snapshot) if follows else []
        wanted = {bindings.binding_ref(one.ref): one for one in snapshot.objects} if follows else {}
        for ref, attached in snapshot.attached.items():
            if attached.metadata.deletion_timestamp is not None:
                continue
            clusters = attached_bindings.places(parent) if ref in wanted and parent is not None else None
            new = attached_bindings.required(attached, snapshot.ref, clusters)
            if new is not attached and attached_bindings.idle(new):
                changes.append(deleting(attached, now=now))
                continue
            policy = attached_bindings.agreed(_parents(snapshot, new))
            new = attached_bindings.treated(new, policy)
            if new is attached:
                continue
            changes.append(Put(new, attached))
            if policy is not None and policy.mixed and attached.spec.placement is None:
                differing = f"those that need it differ in {policy.mixed}"
                events.append(Event(attached, "DependencyPolicyConflict", differing, warning=True))
        for ref, template in wanted.items():
            if ref not in snapshot.attached and parent is not None and template.metadata.deletion_timestamp is None:
                changes.append(Put(attached_bindings.created(template, parent, now=now), None))
        if not changes:
            return NOTHING
        return Decision(changes=tuple(changes), events=tuple(events), reason="SyncDependencies")


def _told(family: Family) -> list[Event]:
    """Return the Event of a workload whose dependencies are news."""
    if family.template is None or family.parent is None:
        return []
    named = ", ".join(f"{one.kind} {one.name or 'by label'}" for one in family.needs)
    found, synced = f"Get dependencies({named or 'none'}) succeed.", "Sync schedule results to dependencies succeed."
    return [
        Event(family.template, "GetDependenciesSucceed", found, step=True),
        Event(family.parent, "SyncScheduleResultToDependenciesSucceed", synced, step=True),
    ]


class _Found:
    """What the workloads of a batch need that exists, and the bindings of that: three queries for all of them."""

    def __init__(self, state: State, needs: Sequence[Dependency]) -> None:
        asked = attached_bindings.selections(needs)
        self._named: dict[Ref, Template] = state.get(sorted(set(attached_bindings.named(needs))))
        self._chosen: dict[Selection, Sequence[Template]] = state.selected(asked) if asked else {}
        everything = {*self._named, *(one.ref for ones in self._chosen.values() for one in ones)}
        self._bindings: dict[Ref, Binding] = state.get(sorted({bindings.binding_ref(ref) for ref in everything}))

    def objects(self, needs: Sequence[Dependency]) -> Iterator[Template]:
        """Yield what is there of what a workload needs, each once."""
        found = [self._named[ref] for ref in attached_bindings.named(needs) if ref in self._named]
        found += [one for asked in attached_bindings.selections(needs) for one in self._chosen.get(asked, ())]
        yield from {one.ref: one for one in found}.values()

    def bindings(self, needs: Sequence[Dependency]) -> dict[Ref, Binding]:
        """Return the bindings of what a workload needs."""
        places = (bindings.binding_ref(one.ref) for one in self.objects(needs))
        return {ref: self._bindings[ref] for ref in places if ref in self._bindings}


def _parents(family: Family, attached: Binding) -> list[Binding]:
    """Return the workloads' bindings that need an attached one, as they are now."""
    return [family.others[ref] for ref in attached_bindings.needing(attached) if ref in family.others]

"""Cascade: decisions that follow from a decision are made at once, on a state in memory, and are stored with it.

A new template makes its binding due for the scheduler, and the placed binding is due for its Works. One after the
other, these are three transactions, and the binding is written and logged twice. In a cascade the binding is written
once, with its clusters and its Works. In the same way a binding that the scheduler places again, for example after an
eviction, gets its Works at once.

The followers are controllers of the same group, so they run under the same lease. None of their batches is therefore
under way while a cascade is: what changes after a cascade has read it makes rows due that are claimed after it. A
decision that follows is left out if it cannot be stored like this. Its object is then due for its controller, as
without a cascade.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, cast

from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Delete, Followed, Put
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, State
from controlplane.kind import KINDS
from controlplane.settings import Settings

_READER = Actor("cascade")
Phase = Callable[[str, str], AbstractContextManager[None]]


class OverlaidState:
    """A state in which objects that are not stored yet are found as if they were stored. Row-native values are not."""

    def __init__(self, state: State, objects: dict[Ref, Object]) -> None:
        self._state = state
        self._objects = objects
        self._kinds = {ref.kind for ref in objects}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)  # all that reads no object by reference or index

    def get(self, refs: Collection[Ref]) -> dict[Ref, Any]:
        """Return the objects that exist, by reference."""
        found = {ref: self._objects[ref] for ref in refs if ref in self._objects}
        rest = [ref for ref in refs if ref not in found]
        return found | self._state.get(rest) if rest else found

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        """Return the objects under each value of a declared index, in (namespace, name) order."""
        stored = self._state.by_index(kind, index, values, limit=limit)
        if kind not in self._kinds:
            return stored
        found = {value: {obj.ref: obj for obj in objects} for value, objects in stored.items()}
        for ref, obj in self._objects.items():
            if ref.kind == kind:
                for objects in found.values():
                    objects.pop(ref, None)
                for value in set(KINDS[kind].index_values(obj, index)).intersection(values):
                    found.setdefault(value, {})[ref] = obj
        listed = {value: [objects[ref] for ref in sorted(objects)] for value, objects in found.items()}
        return {value: objects[:limit] if limit else objects for value, objects in listed.items() if objects}


def followers(controller: Controller, group: Sequence[Controller], settings: Settings) -> tuple[Controller, ...]:
    """Return the controllers of a group that decide at once about what a controller writes, in order."""
    if not controller.followed_by:
        return ()
    by_name = {one.name: one for one in group if _shares_lease(one, controller) and settings.runs(one.name)}
    return tuple(by_name[name] for name in controller.followed_by if name in by_name)


def _shares_lease(one: Controller, other: Controller) -> bool:
    """Test whether two controllers run under one lease for all objects. Shards of a group have a lease each."""
    return one.group == other.group and one.shards == other.shards == 1


def with_following(
    decided: Sequence[Decision | Exception],
    claimed: Sequence[Ref],
    following: Sequence[Controller],
    state: State,
    settings: Settings,
    *,
    now: datetime,
    phase: Phase,
) -> list[Decision | Exception]:
    """Return decisions with those contained in them that follow from what they write.

    claimed: the object that each decision is about. Followed are this object and those that the decision creates. One
    load and one decision of each follower serve all of them.
    """
    results = list(decided)
    if not following:
        return results
    router = Router(following)
    places = {
        ref: place
        for place, (decision, own) in enumerate(zip(results, claimed, strict=True))
        for ref in _followed_refs(decision, own)
    }
    for follower in following:
        due = [ref for ref, place in places.items() if _is_due(follower, ref, cast(Decision, results[place]), router)]
        if not due:
            continue
        overlaid = cast(State, OverlaidState(state, dict(_objects(results))))
        for ref, decision in _decided(follower, due, overlaid, settings, now=now, phase=phase):
            place = places[ref]
            folded = _folded(cast(Decision, results[place]), follower.name, ref, decision)
            if folded is not None:
                results[place] = folded
    return results


def _followed_refs(decision: Decision | Exception, own: Ref) -> Iterator[Ref]:
    """Yield the objects that a decision creates, and its own if it writes it, if others may be contained in it."""
    if isinstance(decision, Exception) or decision.wake_at is not None or decision.separate_decisions:
        return
    for change in decision.changes:
        if isinstance(change, Put) and (change.old is None or (change.new.ref == own and not change.exact)):
            yield change.new.ref


def _objects(results: Sequence[Decision | Exception]) -> Iterator[tuple[Ref, Object]]:
    """Yield the objects that decisions write, as they will be."""
    for decision in results:
        if isinstance(decision, Decision):
            for change in decision.changes:
                if isinstance(change, Put):
                    yield change.new.ref, change.new


def _is_due(follower: Controller, ref: Ref, decision: Decision, router: Router) -> bool:
    """Test whether a decision makes an object that it writes due for a follower at once."""
    if ref.kind not in follower.keys:
        return False
    put = next(change for change in decision.changes if isinstance(change, Put) and change.new.ref == ref)
    marks = router.marks(put.old, put.new, by=_READER)
    return any(mark.controller == follower.name and mark.ref == ref and not mark.after for mark in marks)


def _decided(
    follower: Controller, refs: Sequence[Ref], state: State, settings: Settings, *, now: datetime, phase: Phase
) -> Iterator[tuple[Ref, Decision]]:
    """Yield what a follower decides about objects. An object about which it cannot decide now is left out."""
    try:
        with phase(follower.name, "load"):
            snapshots = follower.load_for(state, refs, settings)
        loaded = [(ref, snapshot) for ref, snapshot in zip(refs, snapshots, strict=True) if snapshot is not None]
        with phase(follower.name, "ask"):
            inquiry = follower.ask([snapshot for _, snapshot in loaded], settings, now=now)
        if inquiry.question is not None:
            return
        with phase(follower.name, "decide"):
            decided = follower.decide_all(inquiry.snapshots, settings, now=now)
    except Exception:  # noqa: BLE001  # the follower reports its failure itself when its own batch fails
        return
    for (ref, _), decision in zip(loaded, decided, strict=True):
        if isinstance(decision, Decision):
            yield ref, decision


def _folded(made: Decision, name: str, ref: Ref, following: Decision) -> Decision | None:
    """Return a decision that contains another one; None: they cannot be stored together."""
    if following.wake_at is not None or following.separate_decisions or following.guards:
        return None
    changes, own = list(made.changes), list[Ref]()
    written = {change.new.ref: place for place, change in enumerate(changes) if isinstance(change, Put)}
    for change in following.changes:
        if isinstance(change, Delete):
            return None
        if not isinstance(change, Put):
            changes.append(change)
        elif (place := written.get(change.new.ref)) is None:
            own.append(change.new.ref)
            changes.append(change)
        else:
            before = cast(Put, changes[place])
            if change.old is not before.new or change.exact:
                return None
            changes[place] = Put(change.new, before.old, upon=tuple(dict.fromkeys((*before.upon, *change.upon))))
    events = tuple(event if event.by else replace(event, by=name) for event in following.events)
    return replace(
        made,
        changes=tuple(changes),
        events=made.events + events,
        capacity_guards=made.capacity_guards + following.capacity_guards,
        quota_guards=made.quota_guards + following.quota_guards,
        followed=(*made.followed, Followed(name, ref, following.reason, tuple(own))),
    )

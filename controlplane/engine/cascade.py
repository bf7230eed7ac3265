"""Cascade: decisions that follow from a decision are made at once, on a state in memory, and are stored with it.

A new template makes its binding due for the scheduler, and the placed binding is due for its Works. One after the
other, these are three transactions, and the binding is written and logged twice. In a cascade the binding is written
once, with its clusters and its Works. In the same way a binding that the scheduler places again, for example after an
eviction, gets its Works at once.

Followers of the same group run under the same lease. None of their batches is therefore under way while a cascade is:
what changes after a cascade has read it makes rows due that are claimed after it.

An evicted binding is due for the scheduler in the same way. The scheduler is a controller of another group, so its own
process may decide at the same time. A decision of such a follower is stored only if what it rests on has not changed:
the object itself, the capacity that it takes, and what `Controller.rests_on` names. If it is lost, the decision that
it follows is stored alone. These decisions are made while the database writes the ones before them (`Completion`).

The binding that was evicted and placed is then due for graceful_eviction, which usually finds nothing to do before the
grace period ends. Such a look is made at once as well, and only the time of the next one is stored.

A decision that follows is left out if it cannot be stored like this. Its object is then due for its controller, as
without a cascade.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.controller import Controller
from controlplane.engine.decision import ROW_CHANGES, Decision, Delete, Drop, Followed, Guard, Put, Save
from controlplane.engine.overlaid_state import OverlaidState
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor, State
from controlplane.kinds.rows import Row
from controlplane.settings import Settings

_READER = Actor("cascade")
Phase = Callable[[str, str], AbstractContextManager[None]]


def followers(controller: Controller, others: Sequence[Controller], settings: Settings) -> tuple[Controller, ...]:
    """Return those of other controllers that decide at once about what a controller writes, in order.

    Controllers with shards do not follow and are not followed, because each shard has a lease of its own.
    """
    if not controller.followed_by or controller.shards != 1:
        return ()
    by_name = {one.name: one for one in others if one.shards == 1 and settings.runs(one.name)}
    return tuple(by_name[name] for name in controller.followed_by if name in by_name)


def with_following(
    decided: Sequence[Decision | Exception],
    claimed: Sequence[Ref],
    following: Sequence[Controller],
    state: State,
    settings: Settings,
    *,
    group: str,
    now: datetime,
    phase: Phase,
) -> tuple[list[Decision | Exception], Completion | None]:
    """Return the decisions with what other controllers (the followers) decide about what they write.

    claimed: the object that each decision is about. Followers of the same group decide about this object and those that
    the decision creates. group: the group of the controller that has decided. Each follower loads once, for all
    objects.

    A follower of another group, of which there is at most one, decides about what separate decisions change. That is
    left to the completion, which is returned as well; None: there is nothing to complete. If there is a completion,
    followers of the same group that come after it look at what it has completed (`Controller.looking`).
    """
    results = list(decided)
    if not following:
        return results, None
    router = Router(following)
    places = {
        ref: place
        for place, (decision, own) in enumerate(zip(results, claimed, strict=True))
        for ref in _followed_refs(decision, own)
    }
    completion: Completion | None = None
    for follower in following:
        if follower.group == group and completion is not None:
            completion.looked_at_by(follower, state, settings, now=now)
        elif follower.group == group:
            _follow(results, places, follower, router, state, settings, now=now, phase=phase)
        else:
            assert completion is None, "two controllers of other groups cannot follow one"
            completion = _followed_elsewhere(results, follower, router, state, settings, now=now, phase=phase)
    return results, completion


class Completion:
    """Completes separate decisions with what a controller of another group (the follower) decides about their objects.

    Example: what the scheduler decides about evicted bindings. All that the follower needs was loaded before. It
    decides about some decisions when they are asked for, so that a store can write those before meanwhile. Each
    decision is completed once.
    """

    def __init__(
        self,
        follower: Controller,
        due: Iterable[tuple[Decision, Ref, Any]],
        decide: Callable[[Sequence[Any]], list[Decision | Exception]],
        overlaid: OverlaidState,
        phase: Phase,
    ) -> None:
        """`due`: decisions with an object that each writes, and the follower's snapshot of that object."""
        self._follower, self._decide, self._overlaid, self._phase = follower, decide, overlaid, phase
        self._due: dict[int, list[tuple[Decision, Ref, Any]]] = {}  # by the id of the decision, which is kept with it
        for entry in due:
            self._due.setdefault(id(entry[0]), []).append(entry)
        self._completed: dict[int, Decision] = {}
        self._looks: list[Callable[[Object], Followed | None]] = []

    def looked_at_by(self, controller: Controller, state: State, settings: Settings, *, now: datetime) -> None:
        """Have a controller look at all objects that are completed: what it needs for that is read now.

        If it would change nothing, the time of its next look is stored with the object. Else it decides in its own
        batch, like for an object that is not completed.
        """
        try:
            with self._phase(controller.name, "load"):
                look = controller.looking(state, settings, now=now)
        except Exception:  # noqa: BLE001  # the controller reports its failure itself when its own batch fails
            return
        self._looks.append(partial(_looked_at, controller.name, look, now))

    def __call__(self, decisions: Sequence[Decision]) -> list[Decision]:
        """Return the decisions, each completed if the follower decides about it and both can be stored together."""
        wanted = [entry for one in decisions if id(one) not in self._completed for entry in self._due.get(id(one), ())]
        self._completed.update((id(one), one) for one, _, _ in wanted)
        for entry, following in zip(wanted, self._decided(wanted), strict=True):
            if isinstance(following, Decision):
                self._completed[id(entry[0])] = self._composed(entry, following)
        return [self.made(one) for one in decisions]

    def __len__(self) -> int:
        """Return how many decisions may be completed."""
        return len(self._due)

    def made(self, decision: Decision) -> Decision:
        """Return a decision as it is completed by now."""
        return self._completed.get(id(decision), decision)

    def _decided(self, wanted: Sequence[tuple[Decision, Ref, Any]]) -> Sequence[Decision | Exception]:
        if not wanted:
            return []
        try:
            with self._phase(self._follower.name, "decide"):
                return self._decide([snapshot for _, _, snapshot in wanted])
        except Exception as error:  # noqa: BLE001  # the follower reports its failure itself when its own batch fails
            return [error] * len(wanted)

    def _composed(self, entry: tuple[Decision, Ref, Any], following: Decision) -> Decision:
        """Return a decision with what follows it; without, if both cannot be stored together."""
        decision, ref, snapshot = entry
        made = self.made(decision)
        try:
            guards = self._follower.rests_on(snapshot, following)
            if guards is None:
                return made
            return _composed(made, self._follower.name, ref, following, guards, self._overlaid, self._looks) or made
        except Exception:  # noqa: BLE001  # the follower decides on its own; what it follows must not be lost by it
            return made


def _follow(
    results: list[Decision | Exception],
    places: Mapping[Ref, int],
    follower: Controller,
    router: Router,
    state: State,
    settings: Settings,
    *,
    now: datetime,
    phase: Phase,
) -> None:
    """Add what a follower of the same group decides to the decisions (`results`). `places`: by object, its decision."""
    due = [ref for ref, place in places.items() if _is_due(follower, ref, cast(Decision, results[place]), router)]
    if not due:
        return
    overlaid = cast(State, OverlaidState(state, dict(_objects(results))))
    for ref, decision in _decided(follower, due, overlaid, settings, now=now, phase=phase):
        place = places[ref]
        folded = _folded(cast(Decision, results[place]), follower.name, ref, decision)
        if folded is not None:
            results[place] = folded


def _followed_elsewhere(
    results: Sequence[Decision | Exception],
    follower: Controller,
    router: Router,
    state: State,
    settings: Settings,
    *,
    now: datetime,
    phase: Phase,
) -> Completion | None:
    """Return what completes the separate decisions of the results; None: they make nothing due for the follower."""
    separate = [one for decision in results if isinstance(decision, Decision) for one in decision.separate_decisions]
    places = {
        change.new.ref: place
        for place, decision in enumerate(separate)
        for change in decision.changes
        if isinstance(change, Put) and change.old is not None and not change.exact
    }
    due = [ref for ref, place in places.items() if _is_due(follower, ref, separate[place], router)]
    if not due:
        return None
    overlaid = OverlaidState(state, dict(_objects(separate)), _rows(separate))
    loaded = _loaded(follower, due, cast(State, overlaid), settings, now=now, phase=phase)
    if not loaded:
        return None
    entries = [
        (made := separate[places[ref]], ref, follower.informed(snapshot, made.found)) for ref, snapshot in loaded
    ]
    try:
        with phase(follower.name, "decide"):
            decide = follower.deciding([snapshot for _, _, snapshot in entries], settings, now=now)
    except Exception:  # noqa: BLE001  # the follower reports its failure itself when its own batch fails
        return None
    return Completion(follower, entries, decide, overlaid, phase)


def _followed_refs(decision: Decision | Exception, own: Ref) -> Iterator[Ref]:
    """Yield the objects about which followers may decide in the same write: those that a decision creates, and its own.

    None for a decision that failed, looks again later, or has separate decisions."""
    if isinstance(decision, Exception) or decision.wake_at is not None or decision.separate_decisions:
        return
    for change in decision.changes:
        if isinstance(change, Put) and (change.old is None or (change.new.ref == own and not change.exact)):
            yield change.new.ref


def _objects(results: Iterable[Decision | Exception]) -> Iterator[tuple[Ref, Object]]:
    """Yield the objects that decisions write, as they will be."""
    for decision in results:
        if isinstance(decision, Decision):
            for change in decision.changes:
                if isinstance(change, Put):
                    yield change.new.ref, change.new


def _rows(results: Iterable[Decision]) -> Iterator[Save | Drop]:
    """Yield the changes of row-native values in decisions."""
    return (change for decision in results for change in decision.changes if isinstance(change, ROW_CHANGES))


def _is_due(follower: Controller, ref: Ref, decision: Decision, router: Router) -> bool:
    """Test whether a decision makes an object that it writes due for a follower at once."""
    if ref.kind not in follower.keys:
        return False
    put = next(change for change in decision.changes if isinstance(change, Put) and change.new.ref == ref)
    marks = router.marks(put.old, put.new, by=_READER)
    return any(mark.controller == follower.name and mark.ref == ref and not mark.after for mark in marks)


def _loaded(
    follower: Controller, refs: Sequence[Ref], state: State, settings: Settings, *, now: datetime, phase: Phase
) -> list[tuple[Ref, Any]]:
    """Return what a follower decides from, by object; nothing if it cannot decide now."""
    try:
        with phase(follower.name, "load"):
            snapshots = follower.load_for(state, refs, settings)
        loaded = [(ref, snapshot) for ref, snapshot in zip(refs, snapshots, strict=True) if snapshot is not None]
        with phase(follower.name, "ask"):
            inquiry = follower.ask([snapshot for _, snapshot in loaded], settings, now=now)
    except Exception:  # noqa: BLE001  # the follower reports its failure itself when its own batch fails
        return []
    if inquiry.question is not None:
        return []
    return [(ref, snapshot) for (ref, _), snapshot in zip(loaded, inquiry.snapshots, strict=True)]


def _decided(
    follower: Controller, refs: Sequence[Ref], state: State, settings: Settings, *, now: datetime, phase: Phase
) -> Iterator[tuple[Ref, Decision]]:
    """Yield what a follower decides about objects. An object about which it cannot decide now is left out."""
    loaded = _loaded(follower, refs, state, settings, now=now, phase=phase)
    try:
        with phase(follower.name, "decide"):
            decided = follower.decide_all([snapshot for _, snapshot in loaded], settings, now=now)
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
    followed = Followed(name, ref, following.reason, tuple(own))
    return _together(made, following, name, changes=changes, followed=(followed,))


def _together(
    made: Decision,
    following: Decision,
    name: str,
    *,
    changes: Iterable[Put | Delete | Save | Drop],
    followed: Iterable[Followed],
) -> Decision:
    """Return a decision with these changes, and with the Events and conditions of one that follows it."""
    events = tuple(event if event.by else replace(event, by=name) for event in following.events)
    return replace(
        made,
        changes=tuple(changes),
        events=made.events + events,
        capacity_guards=made.capacity_guards + following.capacity_guards,
        quota_guards=made.quota_guards + following.quota_guards,
        followed=(*made.followed, *followed),
    )


def _looked_at(
    controller: str, look: Callable[[Object], Decision | None], now: datetime, obj: Object
) -> Followed | None:
    """Return when a controller looks at an object again that it would not change now; None: it decides on its own."""
    try:
        found = look(obj)
    except Exception:  # noqa: BLE001  # the controller reports its failure itself when its own batch fails
        return None
    if found is None or found != Decision(wake_at=found.wake_at, reason=found.reason):
        return None
    return Followed(controller, obj.ref, again_after=None if found.wake_at is None else found.wake_at - now)


def _composed(
    made: Decision,
    name: str,
    ref: Ref,
    following: Decision,
    guards: Sequence[Guard],
    overlaid: OverlaidState,
    looks: Iterable[Callable[[Object], Followed | None]],
) -> Decision | None:
    """Return a decision about a stored object that contains another one about it; None: they cannot be stored together.

    `guards`: what the other one rests on. `looks`: of controllers that look at the object as it will be.
    """
    if following.wake_at is not None or following.separate_decisions or following.guards:
        return None
    puts = [change for change in following.changes if not isinstance(change, ROW_CHANGES)]
    before = next(change for change in made.changes if isinstance(change, Put) and change.new.ref == ref)
    if len(puts) != 1 or not isinstance(puts[0], Put) or puts[0].old is not before.new:
        return None
    both = Put(puts[0].new, before.old, upon=tuple(dict.fromkeys((*before.upon, *puts[0].upon))))
    rows = [change for change in following.changes if isinstance(change, ROW_CHANGES)]
    later = {_key(change) for change in rows}
    saved = {_key(change) for change in made.changes if isinstance(change, Save)}
    kept = [
        both if change is before else change
        for change in made.changes
        if not isinstance(change, ROW_CHANGES) or _key(change) not in later
    ]
    followed = (Followed(name, ref, following.reason), *filter(None, (look(both.new) for look in looks)))
    found = _together(made, following, name, changes=[*kept, *_net(rows, saved, overlaid)], followed=followed)
    return replace(found, guards=(*found.guards, *(guard for guard in guards if guard not in found.guards)))


def _net(
    rows: Iterable[Save | Drop], saved: Collection[tuple[type[Row], str]], overlaid: OverlaidState
) -> Iterator[Save | Drop]:
    """Yield a follower's changes of rows, on top of rows that the same decision saves (`saved`: their keys).

    A row that the follower drops and the decision saves is not saved at all. If the row is stored, it is dropped.
    """
    for change in rows:
        if isinstance(change, Save) or _key(change) not in saved:
            yield change
        elif (stored := overlaid.stored.get(_key(change))) is not None:
            yield Drop(stored)


def _key(change: Save | Drop) -> tuple[type[Row], str]:
    return type(change.row), change.row.key

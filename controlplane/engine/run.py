"""The run loop: claim, load, decide, apply. The same code under Celery, in the simulator and in tests."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import Controller
from controlplane.engine.decision import NOTHING, Decision, Event
from controlplane.engine.state import Actor, Claim, Fence, Fenced, Outcome, Store, Unstorable
from controlplane.kinds import FAILOVER_CONFIGURATION
from controlplane.settings import Settings

CLAIM_SECONDS = 30.0
FAN_OUT_CHUNK = 2000
DECIDED_CHUNK = 10_000  # decided and written in several transactions, so that nobody waits long for the write lock
# Events of ordinary steps are stored where at most so many objects take the step in one batch: a user who applies some
# manifests follows them step by step, and 10,000 bindings are not slowed down by 80,000 Events.
MAX_DECISIONS_WITH_STEPS = 25
# A defect does not mend itself: its object is looked at this much later, or as soon as something about it changes.
RETRY_AFTER_FAILURE = timedelta(seconds=10)


class Failure(msgspec.Struct, frozen=True):
    """One object a controller could not decide: enough to run that decision again (`make replay`)."""

    controller: str
    ref: Ref
    snapshot: Any
    error: str
    trace: str
    now: datetime
    settings: Settings | None = None
    answer: Any = None


class Report(msgspec.Struct, frozen=True, gc=False):
    """What one batch did."""

    controller: str
    claimed: int = 0
    expanded: int = 0
    stored: int = 0
    lost: int = 0
    failures: tuple[Failure, ...] = ()


class World(msgspec.Struct, frozen=True):
    """What comes from outside besides state: answers to a controller's question (tokens of the eviction bucket)."""

    answer: Callable[[Any], Any] = lambda question: None
    report: Callable[[Failure], None] = lambda failure: None


def mark_due_at_start(controllers: Sequence[Controller], store: Store) -> None:
    """Make due what a process looks at when it begins: its settings may be new (`Controller.due_at_start`)."""
    for controller in controllers:
        store.mark(controller.name, controller.due_at_start)


def run_batch(
    controller: Controller,
    store: Store,
    settings: Settings,
    *,
    world: World,
    shard: int = 0,
    fence: Fence | None = None,
    limit: int = 0,
    reload_settings: Callable[[], Settings] | None = None,
    has_time: Callable[[], bool] = lambda: True,
) -> Report:
    """Work off one batch of due objects. `claimed` 0: nothing is due.

    `reload_settings` reads the settings again: where a change of them is what is due, those given may be of before it.
    `has_time` says whether there is time for another fan-out; those there is no time for stay due.

    `fence`: the lease of the controller's group. Whoever holds it is alone and need not lease the rows one by one, and
    what one who lost it still decides is refused.
    """
    claimed = store.claim(
        controller.name,
        shard=shard,
        shards=controller.shards,
        limit=limit or controller.batch,
        lease_seconds=0.0 if fence is not None else CLAIM_SECONDS,
    )
    if not claimed.claims:
        return Report(controller.name)
    if reload_settings is not None and any(claim.ref.kind == FAILOVER_CONFIGURATION for claim in claimed.claims):
        settings = reload_settings()
    origins: list[Claim] = []
    keyed: list[Claim] = []
    for claim in claimed.claims:
        (keyed if claim.ref.kind in controller.keys else origins).append(claim)
    for place, claim in enumerate(origins):
        if place and not has_time():
            store.release(origins[place:])
            break
        limit = DECIDED_CHUNK if controller.decides_in_fan_out else FAN_OUT_CHUNK
        refs, cursor = controller.expand(store, claim.ref, after=claim.cursor, limit=limit)
        if controller.decides_in_fan_out:
            refs = _at_once(controller, store, settings, refs, now=claimed.now, fence=fence)
        store.advance(claim, refs, cursor=cursor)
    try:
        failures, outcomes = _decide(controller, store, settings, keyed, now=claimed.now, world=world, fence=fence)
    except Fenced:
        store.release(keyed)  # whoever has the lease now need not wait for our claims to run out
        raise
    lost = len([outcome for outcome in outcomes if outcome.lost])
    return Report(controller.name, len(claimed.claims), len(origins), len(outcomes) - lost, lost, tuple(failures))


def _at_once(
    controller: Controller, store: Store, settings: Settings, refs: Sequence[Ref], *, now: datetime, fence: Fence | None
) -> list[Ref]:
    """Decide one chunk of a fan-out without making its objects due first; return those that have to be all the same:
    what failed, lost, or wants to be looked at again."""
    loaded = [(ref, one) for ref, one in zip(refs, controller.load(store, refs), strict=True) if one is not None]
    decided = controller.decide_all([one for _, one in loaded], settings, now=now)
    rest: list[Ref] = []
    batch: list[tuple[Ref, Decision]] = []
    for (ref, _), decision in zip(loaded, decided, strict=True):
        if isinstance(decision, Exception) or decision.wake_at is not None:
            rest.append(ref)
        elif decision.changes or decision.events:
            batch.append((ref, decision))
    by = Actor(controller.name, controller=True)
    outcomes = apply_decisions(store, [(None, decision) for _, decision in batch], by=by, fence=fence)
    again = (isinstance(one, Unstorable) or bool(one.lost) for one in outcomes)
    return rest + [ref for (ref, _), lost in zip(batch, again, strict=True) if lost]


def _decide(
    controller: Controller,
    store: Store,
    settings: Settings,
    claims: Sequence[Claim],
    *,
    now: datetime,
    world: World,
    fence: Fence | None,
) -> tuple[list[Failure], Sequence[Outcome]]:
    if not claims:
        return [], []
    snapshots = controller.load(store, [claim.ref for claim in claims])
    present: list[tuple[Claim, Any]] = []
    batch: list[tuple[Claim | None, Decision]] = []
    about: list[tuple[Claim, Any]] = []  # whose decision each in `batch` is
    for claim, snapshot in zip(claims, snapshots, strict=True):
        if snapshot is None:
            batch.append((claim, NOTHING))
            about.append((claim, None))
        else:
            present.append((claim, snapshot))
    loaded = [snapshot for _, snapshot in present]
    inquiry = controller.ask(loaded, settings, now=now)
    answer = None if inquiry.question is None else world.answer(inquiry.question)
    decided = controller.decide_all(inquiry.snapshots, settings, now=now, answer=answer)
    failures: list[Failure] = []

    def failed(claim: Claim, snapshot: Any, error: Exception) -> Decision:
        failure = _failure(controller.name, claim.ref, snapshot, error, settings, now=now, answer=answer)
        failures.append(failure)
        world.report(failure)
        return Decision(wake_at=now + RETRY_AFTER_FAILURE, events=_told(snapshot, failure))

    for (claim, snapshot), found in zip(present, decided, strict=True):
        decision = failed(claim, snapshot, found) if isinstance(found, Exception) else found
        batch.append((claim, decision))
        about.append((claim, snapshot))
        if decision.separate_decisions:
            batch += [(None, rider) for rider in decision.separate_decisions]
            about += [(claim, snapshot)] * len(decision.separate_decisions)
    by = Actor(controller.name, controller=True)
    outcomes = apply_decisions(store, batch, by=by, fence=fence)
    refused = [
        (mine, failed(claim, snapshot, outcome))
        for (mine, _), (claim, snapshot), outcome in zip(batch, about, outcomes, strict=True)
        if isinstance(outcome, Unstorable)
    ]
    if refused:
        store.apply(refused, by=by, fence=fence)
    return failures, [outcome for outcome in outcomes if isinstance(outcome, Outcome)]


def apply_decisions(
    store: Store, batch: Sequence[tuple[Claim | None, Decision]], *, by: Actor, fence: Fence | None = None
) -> list[Outcome | Unstorable]:
    """Write decisions; what one of them cannot have stored costs the others nothing, and is returned in its place.

    Events of steps are left out where more than MAX_DECISIONS_WITH_STEPS decisions have some. Raises Fenced, and
    what the store raises where it cannot be asked.
    """
    stepping = sum(any(event.step for event in decision.events) for _, decision in batch)
    if stepping > MAX_DECISIONS_WITH_STEPS:
        batch = [(claim, _without_steps(decision)) for claim, decision in batch]
    return _written(store, batch, by=by, fence=fence)


def _without_steps(decision: Decision) -> Decision:
    events = tuple(event for event in decision.events if not event.step)
    return decision if len(events) == len(decision.events) else replace(decision, events=events)


def _written(
    store: Store, batch: Sequence[tuple[Claim | None, Decision]], *, by: Actor, fence: Fence | None
) -> list[Outcome | Unstorable]:
    try:
        return list(store.apply(batch, by=by, fence=fence))
    except Unstorable as error:
        done, rest = error.written, batch[len(error.written) :]
        if len(rest) == 1:
            return [*done, error]
    half = len(rest) // 2
    halves = (_written(store, part, by=by, fence=fence) for part in (rest[:half], rest[half:]))
    return [*done, *(outcome for part in halves for outcome in part)]


def _failure(
    controller: str, ref: Ref, snapshot: Any, error: Exception, settings: Settings, *, now: datetime, answer: Any
) -> Failure:
    trace = "".join(traceback.format_exception(error))
    return Failure(controller, ref, snapshot, f"{type(error).__name__}: {error}", trace, now, settings, answer)


def _told(snapshot: Any, failure: Failure) -> tuple[Event, ...]:
    about = getattr(snapshot, "subject", None)
    if about is None:
        return ()
    message = f"{failure.controller} could not decide about {failure.ref}: {failure.error}"
    return (Event(about, "ControllerFailed", message, warning=True),)


def run_until_idle(
    controllers: Sequence[Controller], store: Store, settings: Settings, *, world: World, rounds: int = 10_000
) -> int:
    """Run controllers in order until nothing is due now. Returns the number of objects looked at.

    Raises RuntimeError after `rounds` rounds: two controllers undo each other's work.
    """
    total = 0
    for _ in range(rounds):
        seen = 0
        for controller in controllers:
            for shard in range(controller.shards):
                seen += run_batch(controller, store, settings, world=world, shard=shard).claimed
        total += seen
        if not seen:
            return total
    raise RuntimeError(f"still work after {rounds} rounds: controllers undo each other's changes")

"""One turn of a controller: claim due objects, load, ask, decide, apply. Celery, the simulator and tests all use it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref
from controlplane.engine import cascade
from controlplane.engine.apart import apart
from controlplane.engine.controller import Controller
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.failure import Failure, failure_events, failure_of
from controlplane.engine.fan_outs import next_chunk
from controlplane.engine.merge import EXISTS
from controlplane.engine.state import (
    Actor,
    Claim,
    Claims,
    HeldLease,
    LeaseLost,
    Outcome,
    Store,
    Unreadable,
    Unstorable,
)
from controlplane.engine.unstorable import apply_decisions, without_steps
from controlplane.interpret.customized import InterpretationFailed, Question, Unanswered
from controlplane.kinds import FAILOVER_CONFIGURATION, INTERPRETER_CUSTOMIZATION
from controlplane.kinds.interpreter_customization import OPERATIONS
from controlplane.settings import Settings

CLAIM_SECONDS = 30.0
FAN_OUT_CHUNK = 2000
DECIDED_CHUNK = 10_000  # decided and written in several transactions, so that no writer waits long for the write lock
# A defect does not disappear by retrying. A failed object is retried after this time, or as soon as it changes.
RETRY_AFTER_FAILURE = timedelta(seconds=10)
ANSWER_ROUNDS = 12  # how often a batch is decided again with answers of scripts and webhooks
UNANSWERED_WAIT = timedelta(seconds=1)  # until an object is decided again whose script or webhook has not answered yet


_READ_WITH_SETTINGS = (FAILOVER_CONFIGURATION, INTERPRETER_CUSTOMIZATION)


class Report(msgspec.Struct, frozen=True, gc=False):
    """Counts of one batch: objects claimed, fan-outs continued, decisions stored and lost; and its failures.

    `more`: the batch has fewer objects than it may have, but others are due.
    """

    controller: str
    claimed: int = 0
    expanded: int = 0
    stored: int = 0
    lost: int = 0
    failures: tuple[Failure, ...] = ()
    more: bool = False


class World(msgspec.Struct, frozen=True):
    """The outside world of a turn. `answer` answers a controller's question, `report` receives each failure.

    `interpret` has questions to scripts and webhooks of users answered (`Interpreters.learn`) and returns whether some
    were; those that take long are answered later.
    `phase` is called with a controller's name and a phase of its batch: load, ask, decide or apply. The phase runs
    inside of what it returns.
    """

    answer: Callable[[Any], Any] = lambda question: None
    report: Callable[[Failure], None] = lambda failure: None
    interpret: Callable[[Sequence[Question]], bool] = lambda questions: False
    phase: Callable[[str, str], AbstractContextManager[None]] = lambda controller, phase: nullcontext()


def mark_due_at_start(controllers: Sequence[Controller], store: Store) -> None:
    """Make the `due_at_start` references of all controllers due: the settings may have changed since the last run."""
    for controller in controllers:
        store.mark(controller.name, controller.due_at_start)


def run_batch(
    controller: Controller,
    store: Store,
    settings: Settings,
    *,
    world: World,
    shard: int = 0,
    lease: HeldLease | None = None,
    limit: int = 0,
    reload_settings: Callable[[], Settings] | None = None,
    has_time: Callable[[], bool] = lambda: True,
    following: Sequence[Controller] = (),
) -> Report:
    """Decide about one batch of due objects and store the decisions. `Report.claimed` 0: nothing was due.

    lease: the lease of the controller's group. Only the holder works for the group, so due rows need no lease of their
    own. A decision is refused (LeaseLost) if the lease has passed to another process.
    limit: how many objects to claim at most; 0: `Controller.batch`.
    reload_settings: reads the settings, and the rules of users, again. It is called if a change of them is among the
    due objects, because they may have been read before that change.
    has_time: asked before every fan-out but the first; fan-outs for which there is no time stay due.
    following: controllers that decide at once about what the decisions write (`cascade.followers`).
    """
    limit = limit or controller.batch
    claimed = store.claim(
        controller.name,
        shard=shard,
        shards=controller.shards,
        limit=limit,
        lease_seconds=0.0 if lease is not None else CLAIM_SECONDS,
    )
    if not claimed.claims:
        return Report(controller.name)
    if len(claimed.claims) > limit and claimed.bundles:
        return _unbundled(controller, store, claimed)
    if reload_settings is not None and any(claim.ref.kind in _READ_WITH_SETTINGS for claim in claimed.claims):
        settings = reload_settings()
    origins: list[Claim] = []
    keyed: list[Claim] = []
    for claim in claimed.claims:
        (keyed if claim.ref.kind in controller.keys else origins).append(claim)
    turn: Any = {"now": claimed.now, "world": world, "lease": lease}
    failures = _continue(controller, store, settings, origins, has_time=has_time, **turn)
    outcomes: list[Outcome] = []
    decide = partial(_decide, controller, store, settings, following=following, **turn)
    try:
        for part, done in apart(keyed, decide):
            if isinstance(done, Unreadable):
                failures += _put_off(controller, store, settings, part, done, **turn)
            else:
                failures += done[0]
                outcomes += done[1]
    except LeaseLost:
        store.release(keyed)  # the new holder of the lease need not wait until these claims expire
        raise
    if claimed.bundles:
        store.advance(claimed.bundles, (), cursor=None)
    lost = len([outcome for outcome in outcomes if outcome.lost])
    counts = len(claimed.claims), len(origins), len(outcomes) - lost, lost
    return Report(controller.name, *counts, tuple(failures), claimed.more)


def _unbundled(controller: Controller, store: Store, claimed: Claims) -> Report:
    """Give the objects of bundles due rows of their own: they are more than a batch may have.

    A process makes batches smaller if they take too long for its lease, so it has to be able to do so.
    """
    store.advance(claimed.bundles, [claim.ref for claim in claimed.claims if claim.bundled], cursor=None)
    store.release([claim for claim in claimed.claims if not claim.bundled])
    return Report(controller.name, len(claimed.claims))


def _continue(
    controller: Controller,
    store: Store,
    settings: Settings,
    origins: Sequence[Claim],
    *,
    has_time: Callable[[], bool],
    **turn: Any,
) -> list[Failure]:
    """Continue each fan-out by a chunk, in order. Return the failures.

    Origins that belong to the same fan-out and are at the same cursor continue together. A fan-out that fails is put
    off alone, and begins again: its cursor may be one that a later release has written.
    """
    failures: list[Failure] = []
    together: dict[tuple[str, str], list[Claim]] = {}
    for claim in origins:
        together.setdefault((controller.fan_out_of(claim.ref), claim.cursor), []).append(claim)
    fan_outs = list(together.values())
    limit = DECIDED_CHUNK if controller.decides_in_fan_out else FAN_OUT_CHUNK
    chunk = partial(_decide_chunk, controller, store, settings, **turn)
    for number, joined in enumerate(fan_outs):
        if number and not has_time():
            store.release([claim for later in fan_outs[number:] for claim in later])
            break
        try:
            refs, cursor, unread = next_chunk(controller, store, joined, limit=limit)
        except (Unreadable, ValueError, LookupError) as error:  # the last two: of a cursor that is not understood
            store.advance(joined, (), cursor="")
            failures += _put_off(controller, store, settings, joined, error, **turn)
            continue
        failures += _report_unread(controller, settings, unread, **turn)
        if controller.decides_in_fan_out:
            refs = [ref for part, due in apart(refs, chunk) for ref in (part if isinstance(due, Unreadable) else due)]
        store.advance(joined, refs, cursor=cursor)
    return failures


def _report_unread(
    controller: Controller,
    settings: Settings,
    unread: Mapping[Ref, Unreadable],
    *,
    now: datetime,
    world: World,
    lease: HeldLease | None,
) -> list[Failure]:
    """Report documents that a fan-out could not read."""
    failures = [
        failure_of(controller.name, ref, None, error, settings, now=now, answer=None) for ref, error in unread.items()
    ]
    for failure in failures:
        world.report(failure)
    return failures


def _put_off(
    controller: Controller,
    store: Store,
    settings: Settings,
    claims: Sequence[Claim],
    error: Exception,
    *,
    now: datetime,
    world: World,
    lease: HeldLease | None,
) -> list[Failure]:
    """Report objects about which nothing can be decided, for example because what it depends on cannot be read; try
    again later."""
    failures = [failure_of(controller.name, claim.ref, None, error, settings, now=now, answer=None) for claim in claims]
    for failure in failures:
        world.report(failure)
    later = Decision(wake_at=now + RETRY_AFTER_FAILURE)
    store.apply([(claim, later) for claim in claims], by=Actor(controller.name, controller=True), lease=lease)
    return failures


def _decide_chunk(
    controller: Controller,
    store: Store,
    settings: Settings,
    refs: Sequence[Ref],
    *,
    now: datetime,
    world: World,
    lease: HeldLease | None,
) -> list[Ref]:
    """Decide one chunk of a fan-out and store the decisions without making the objects due first.

    Returns the objects that must become due after all: the decision failed, was lost, or has a `wake_at`.
    """
    with world.phase(controller.name, "load"):
        snapshots = controller.load_for(store, refs, settings)
    loaded = [(ref, snapshot) for ref, snapshot in zip(refs, snapshots, strict=True) if snapshot is not None]
    with world.phase(controller.name, "decide"):
        decided = controller.decide_all([snapshot for _, snapshot in loaded], settings, now=now)
    # A decision that waits for an answer of a script or webhook is made due like one that failed.
    due: list[Ref] = []
    batch: list[tuple[Ref, Decision]] = []
    for (ref, _), decision in zip(loaded, decided, strict=True):
        if isinstance(decision, Exception) or decision.wake_at is not None:
            due.append(ref)
        elif decision.changes or decision.events:
            batch.append((ref, decision))
    by = Actor(controller.name, controller=True)
    with world.phase(controller.name, "apply"):
        outcomes = apply_decisions(store, [(None, decision) for _, decision in batch], by=by, lease=lease)
    failed = (isinstance(outcome, Unstorable) or bool(outcome.lost) for outcome in outcomes)
    return due + [ref for (ref, _), again in zip(batch, failed, strict=True) if again]


def _decide(
    controller: Controller,
    store: Store,
    settings: Settings,
    claims: Sequence[Claim],
    *,
    now: datetime,
    world: World,
    lease: HeldLease | None,
    following: Sequence[Controller] = (),
) -> tuple[list[Failure], list[Outcome]]:
    """Load, ask, decide and apply for the claimed objects; return the failures and what became of the decisions."""
    if not claims:
        return [], []
    with world.phase(controller.name, "load"):
        snapshots = controller.load_for(store, [claim.ref for claim in claims], settings)
    loaded = list(zip(claims, snapshots, strict=True))
    present = [(claim, snapshot) for claim, snapshot in loaded if snapshot is not None]
    refs = [claim.ref for claim, _ in present]
    batch = [_Item(claim, claim, None, NOTHING, NOTHING) for claim, snapshot in loaded if snapshot is None]
    with world.phase(controller.name, "ask"):
        inquiry = controller.ask([snapshot for _, snapshot in present], settings, now=now)
        answer = None if inquiry.question is None else world.answer(inquiry.question)
    with world.phase(controller.name, "decide"):
        decided = controller.decide_all(inquiry.snapshots, settings, now=now, answer=answer)
        again = partial(_decide_again, controller, store, settings, now=now, answer=answer)
        decide_with_answers(decided, lambda places: again([refs[place] for place in places]), world.interpret)
    results, completion = cascade.with_following(
        decided, refs, following, store, settings, group=controller.group, now=now, phase=world.phase
    )
    failures: list[Failure] = []

    def failed(claim: Claim, snapshot: Any, error: Exception) -> Decision:
        if isinstance(error, Unanswered | InterpretationFailed | NameTaken):
            later = put_off(error, getattr(snapshot, "subject", None), now=now)
            rest = error.rest if isinstance(error, NameTaken) and controller.creates_separately else NOTHING
            return replace(rest, events=(*rest.events, *later.events), wake_at=later.wake_at)
        failure = failure_of(controller.name, claim.ref, snapshot, error, settings, now=now, answer=answer)
        failures.append(failure)
        world.report(failure)
        return Decision(wake_at=now + RETRY_AFTER_FAILURE, events=failure_events(snapshot, failure))

    for (claim, snapshot), result, own in zip(present, results, decided, strict=True):
        if isinstance(result, Exception) or isinstance(own, Exception):
            result = own = failed(claim, snapshot, own if isinstance(own, Exception) else cast(Exception, result))
        batch += _items(claim, snapshot, result, own)
    by = Actor(controller.name, controller=True)
    with world.phase(controller.name, "apply"):
        batch, outcomes = _store(store, batch, completion, by=by, lease=lease)
        _find_taken_names(store, batch, outcomes, again)
    refused = [
        (item.about, failed(item.about, item.snapshot, outcome))
        for item, outcome in zip(batch, outcomes, strict=True)
        if isinstance(outcome, Unstorable)
    ]
    if refused:
        apply_decisions(store, refused, by=by, lease=lease)
    return failures, [outcome for outcome in outcomes if isinstance(outcome, Outcome)]


class NameTaken(Unstorable):
    """A decision creates an object, and an object of that name exists that its controller does not know as its own.

    `rest`: the decision without such objects and without deletions, and without the Events of steps, which would be
    repeated.
    """

    def __init__(self, ref: Ref, rest: Decision) -> None:
        super().__init__(f"{ref} exists and was not made for this object: delete it, or give one of them another name")
        self.rest = rest


class _Item(NamedTuple):
    """A decision that is to be stored. `claim` None: it is a separate decision of the one about the claim `about`."""

    claim: Claim | None
    about: Claim
    snapshot: Any  # that the decision was made from; None: the object is gone
    decision: Decision
    alone: Decision  # the same without decisions that follow from it


def _items(claim: Claim, snapshot: Any, decision: Decision, alone: Decision) -> Iterator[_Item]:
    """Yield a decision and its separate decisions."""
    yield _Item(claim, claim, snapshot, decision, alone)
    for separate, own in zip(decision.separate_decisions, alone.separate_decisions, strict=True):
        yield _Item(None, claim, snapshot, separate, own)


def _store(
    store: Store, batch: list[_Item], completion: cascade.Completion | None, *, by: Actor, lease: HeldLease | None
) -> tuple[list[_Item], list[Outcome | Unstorable]]:
    """Store decisions, with those that follow from them if possible; return them as they were stored, and outcomes."""
    pairs = [(item.claim, item.decision) for item in batch]
    completed = 0 if completion is None else len(completion)
    outcomes = apply_decisions(store, pairs, by=by, lease=lease, complete=completion, completed=completed)
    if completion is not None:
        batch = [item._replace(decision=completion.made(item.decision)) for item in batch]
    _store_alone(store, batch, outcomes, by=by, lease=lease)
    return batch, outcomes


def _store_alone(
    store: Store, batch: Sequence[_Item], outcomes: list[Outcome | Unstorable], *, by: Actor, lease: HeldLease | None
) -> None:
    """Store without those that follow from them the decisions that were not stored with these; replace the outcomes.

    So a Work that conflicts with another one keeps no binding from being placed, and a cluster that changes keeps no
    copy from being evicted. The controllers that follow decide on their own, and report what fails.
    """
    again = [
        (place, item)
        for place, (item, outcome) in enumerate(zip(batch, outcomes, strict=True))
        if item.decision.followed and _is_not_stored(outcome)
    ]
    if again:
        stored = apply_decisions(store, [(item.claim, item.alone) for _, item in again], by=by, lease=lease)
        for (place, _), outcome in zip(again, stored, strict=True):
            outcomes[place] = outcome


def _is_not_stored(outcome: Outcome | Unstorable) -> bool:
    return isinstance(outcome, Unstorable) or bool(outcome.lost)


def _find_taken_names(
    store: Store,
    batch: Sequence[_Item],
    outcomes: list[Outcome | Unstorable],
    again: Callable[[Sequence[Ref]], Iterable[Decision | Exception]],
) -> None:
    """Replace the outcome by NameTaken for each decision that creates an object whose name another object has.

    A decision that lost a race is made again at once, and knows the object then. This one would be lost again without
    an end. `again`: decides once more about these objects.
    """
    lost = [
        place
        for place, (item, outcome) in enumerate(zip(batch, outcomes, strict=True))
        if item.claim is not None and isinstance(outcome, Outcome) and outcome.lost.startswith(EXISTS)
    ]
    if not lost:
        return
    for place, decision in zip(lost, again([batch[place].about.ref for place in lost]), strict=True):
        if isinstance(decision, Exception):
            continue
        if taken := store.get(_created(decision) & _created(batch[place].alone)):
            outcomes[place] = NameTaken(min(taken), without_steps(_without(decision, taken)))


def _created(decision: Decision) -> set[Ref]:
    return {change.new.ref for change in decision.changes if isinstance(change, Put) and change.old is None}


def _without(decision: Decision, taken: Collection[Ref]) -> Decision:
    """Return a decision that does not create these objects, and removes nothing that they may be made to replace."""
    kept = (one for one in decision.changes if isinstance(one, Put) and not (one.old is None and one.new.ref in taken))
    return replace(decision, changes=tuple(kept))


def _decide_again(
    controller: Controller, store: Store, settings: Settings, refs: Sequence[Ref], *, now: datetime, answer: Any
) -> Iterator[Decision | Exception]:
    """Return the decisions about objects, loaded again: `load` may use answers as well."""
    loaded = controller.load_for(store, refs, settings)
    asked = controller.ask([snapshot for snapshot in loaded if snapshot is not None], settings, now=now)
    new = iter(controller.decide_all(asked.snapshots, settings, now=now, answer=answer))
    return (NOTHING if snapshot is None else next(new) for snapshot in loaded)


def decide_with_answers(
    decided: list[Decision | Exception],
    again: Callable[[Sequence[int]], Iterable[Decision | Exception]],
    interpret: Callable[[Sequence[Question]], bool],
) -> None:
    """Replace the decisions that wait for answers of scripts and webhooks, as far as these answer.

    `again`: decides once more about the objects at these positions.
    """
    for _ in range(ANSWER_ROUNDS):
        waiting = [index for index, result in enumerate(decided) if isinstance(result, Unanswered)]
        if not waiting or not interpret(questions_of(decided)):
            return
        for index, result in zip(waiting, again(waiting), strict=True):
            decided[index] = result


def questions_of(results: Sequence[Any]) -> list[Question]:
    """Return the questions to scripts and webhooks on which decisions wait, each once."""
    found = {question.key: question for each in results if isinstance(each, Unanswered) for question in each.questions}
    return list(found.values())


def put_off(error: Unanswered | InterpretationFailed | NameTaken, about: Any, *, now: datetime) -> Decision:
    """Return the decision to look at an object again, because a script or webhook has not answered yet or has failed,
    or another object has a name that is needed.

    A failure also gets an Event about `about`, with the rule and the reason; None: no Event. It is a defect of the
    rule, or a name that a user has chosen, not a defect of this program.
    """
    if isinstance(error, Unanswered):
        return Decision(wake_at=now + UNANSWERED_WAIT)
    reason = "NameTaken" if isinstance(error, NameTaken) else failure_reason(error)
    events = () if about is None else (Event(about, reason, str(error), warning=True),)
    return Decision(wake_at=now + RETRY_AFTER_FAILURE, events=events)


def failure_reason(error: InterpretationFailed) -> str:
    """Return the reason of the Event about a failed rule, for example GetReplicasFailed."""
    return f"{OPERATIONS[error.operation][1]}Failed"


def run_until_idle(
    controllers: Sequence[Controller], store: Store, settings: Settings, *, world: World, rounds: int = 10_000
) -> int:
    """Run the controllers in order, again and again, until nothing is due. Return the number of objects claimed.

    Raises RuntimeError if something is still due after `rounds` rounds: controllers then undo each other's changes.
    """
    total = 0
    followed = [(one, cascade.followers(one, controllers, settings)) for one in controllers]
    for _ in range(rounds):
        claimed = 0
        for controller, following in followed:
            for shard in range(controller.shards):
                claimed += run_batch(controller, store, settings, world=world, shard=shard, following=following).claimed
        total += claimed
        if not claimed:
            return total
    raise RuntimeError(f"objects are still due after {rounds} rounds: controllers undo each other's changes")

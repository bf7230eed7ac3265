"""Runs one member controller: claims and loads objects, sends questions to many members, and decides on the answers."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from apps.members.host import Host
from apps.objects.instruments import ERRORS, RECONCILED, expect, phase
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.questions import Answer, Collect, Compare, Discard, Ensure, Observe, Question
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.apart import apart
from controlplane.engine.decision import NOTHING, Decision
from controlplane.engine.failure import Failure
from controlplane.engine.fan_outs import next_chunk
from controlplane.engine.run import (
    ANSWER_ROUNDS,
    CLAIM_SECONDS,
    FAN_OUT_CHUNK,
    RETRY_AFTER_FAILURE,
    decide_with_answers,
    put_off,
    questions_of,
)
from controlplane.engine.state import Actor, Claim, Claims, Unreadable, Unstorable
from controlplane.engine.unstorable import apply_decisions
from controlplane.interpret import InterpretationFailed, Unanswered
from controlplane.settings import Settings

log = logging.getLogger(__name__)

IN_FLIGHT_PER_MEMBER = 64
IN_FLIGHT = 8192  # of all members: enough for many silent members until they are published as not ready
LONGEST_ANSWER_SECONDS = CLAIM_SECONDS - 5  # less than a claim lasts, so that no other process asks meanwhile
# For large objects on a loaded member, and for the lists of a large one (`LONGEST_SECONDS`, `LIST_SECONDS` of
# `apps.clusters.client`).
LONGEST_LARGE_ANSWER_SECONDS = 300.0
EXTEND_SECONDS = CLAIM_SECONDS / 3  # between two extensions of claims whose questions are not answered yet
CLAIM_LASTS = timedelta(seconds=CLAIM_SECONDS)
FLUSH_SECONDS = 0.02
FLUSH_SIZE = 300
IDLE_SECONDS = 0.5  # between two looks at what a notification does not report: settings, free room for questions
LONGEST_WAIT = 5.0  # while nothing is due: notifications end the wait, so this is for one that was lost
AWAY_SECONDS = 1.0  # between two tries while the store is away
CROWDED = timedelta(seconds=1)  # until an object is due again whose member has IN_FLIGHT_PER_MEMBER questions in flight


class Asked(msgspec.Struct, eq=False):
    """A claimed object with its question and answer.

    `at`: when the claim was made or last extended, by the clock of the database. `snapshot`: what was loaded; None: the
    object is gone. `answer`: None: not answered yet. `error`: why there is no answer: the controller raised instead of
    asking, or a script or webhook has to answer before. `claimed`: ends the request when the claim ends; None: nothing
    was sent yet.
    """

    claim: Claim
    at: datetime
    snapshot: Any
    question: Question | None = None
    answer: Answer | None = None
    error: Exception | None = None
    claimed: asyncio.Timeout | None = None


class Pump:
    """Runs one controller until cancelled. Calls of the store run in threads of `executor`, HTTP in the event loop."""

    def __init__(
        self,
        controller: MemberController,
        host: Host,
        answer: Callable[[Question], Awaitable[Answer]],
        executor: Executor,
        *,
        extend_seconds: float = EXTEND_SECONDS,
    ) -> None:
        self.controller = controller
        self.host = host
        self.store = host.store
        self.answer = answer
        self.executor = executor
        self.extend_seconds = extend_seconds
        self.wake = asyncio.Event()
        expect([controller.name])
        self._answered: asyncio.Queue[Asked] = asyncio.Queue()
        self._in_flight: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[Asked] = set()  # questions that are not answered yet
        self._held: set[Asked] = set()  # what is claimed, and neither written nor given back
        self._calls: set[Future[Any]] = set()  # calls of the store that have not ended
        self._unknown: set[Asked] = set()  # writes that were sent, and whose answers nothing waits for any more

    async def run(self) -> None:
        """Claim objects and write decisions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._claiming())
            tasks.create_task(self._flushing())
            tasks.create_task(self._extending())

    async def _claiming(self) -> None:
        while True:
            self.wake.clear()  # before the claim, so that rows that become due meanwhile are not missed
            wait = IDLE_SECONDS
            if len(self._tasks) < IN_FLIGHT:
                claimed_until = _time() + CLAIM_SECONDS
                try:
                    asked, wait = await self._in_thread(self.claim)
                    await self._send(asked, claimed_until=claimed_until)
                except self.host.away as error:
                    log.warning("%s: the store is away; trying again: %s", self.controller.name, self.host.cause(error))
                    await asyncio.sleep(AWAY_SECONDS)
            if wait:
                await self._pause(wait)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # wait_for would lose a cancellation that comes with a notification
                await self.wake.wait()
        except TimeoutError:
            pass  # no notification: look for due rows all the same

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        call = self.executor.submit(self.host.connected, function, *arguments)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.wrap_future(call)

    def claim(self) -> tuple[list[Asked], float]:
        """Claim and load one batch. Returns it, and after how many seconds to claim again. Runs in a thread."""
        controller, settings = self.controller, self.host.settings()
        if not settings.runs(controller.name):
            return [], IDLE_SECONDS
        claimed = self.store.claim(
            controller.name, shard=0, shards=1, limit=controller.batch, lease_seconds=CLAIM_SECONDS
        )
        if not claimed.claims:
            due = self.store.next_due({controller.name})
            left = LONGEST_WAIT if due is None else (due - claimed.now).total_seconds()
            return [], min(max(left, 0.001), LONGEST_WAIT)
        try:
            asked = self._asked(claimed, settings)
            self._held.update(asked)
            return asked, 0.0
        except self.host.away:
            raise
        except Exception:  # an error of this controller must not stop the others
            ERRORS.labels(controller.name).inc()
            log.exception(
                "controller %s could not load a batch; its %d objects are tried again later",
                controller.name,
                len(claimed.claims),
            )
            self._put_off(claimed.claims)
            return [], 0.0

    def _asked(self, claimed: Claims, settings: Settings) -> list[Asked]:
        controller = self.controller
        for claim in claimed.claims:
            if claim.ref.kind not in controller.keys:
                settings = self.host.settings(reread=True)  # the change of settings may be the reason
                self._expand(claim)
        claims = [claim for claim in claimed.claims if claim.ref.kind in controller.keys]
        with phase(controller.name, "load"):
            asked = self._loaded(claims, claimed.now) if claims else []
        open_ = [item for item in asked if item.snapshot is not None]
        for _ in range(ANSWER_ROUNDS):
            for item in open_:
                try:
                    item.question, item.error = controller.question(item.snapshot, settings, now=claimed.now), None
                except Exception as error:  # noqa: BLE001  # an error with one object affects only that object
                    item.error = error
            open_ = [item for item in open_ if isinstance(item.error, Unanswered)]
            if not open_ or not self.host.interpret(questions_of([item.error for item in open_])):
                break
        return asked

    def _expand(self, claim: Claim) -> None:
        """Make the next objects due that a fan-out concerns.

        A document that cannot be read keeps it from nothing else. One that fails is put off, and begins again: its
        cursor may be one that another release has written.
        """
        controller = self.controller
        try:
            refs, cursor, unread = next_chunk(controller, self.store, [claim], limit=FAN_OUT_CHUNK)
        except (Unreadable, ValueError, LookupError) as error:  # the last two: of a cursor that is not understood
            self._complain(claim.ref, error)
            self.store.advance([claim], (), cursor="")
            self._put_off([claim])
            return
        for ref, why in unread.items():
            self._complain(ref, why)
        self.store.advance([claim], refs, cursor=cursor)

    def _complain(self, ref: Ref, error: Exception) -> None:
        ERRORS.labels(self.controller.name).inc()
        log.error("%s: %s is tried again later: %s", self.controller.name, ref, error)

    def _loaded(self, claims: Sequence[Claim], now: datetime) -> list[Asked]:
        """Return claimed objects with what was loaded; one that cannot be read fails alone."""
        asked: list[Asked] = []
        for part, loaded in apart(claims, lambda some: self.controller.load(self.store, [one.ref for one in some])):
            if isinstance(loaded, Unreadable):
                asked += [Asked(claim, now, None, error=loaded) for claim in part]
            else:
                asked += [Asked(claim, now, snapshot) for claim, snapshot in zip(part, loaded, strict=True)]
        return asked

    def _put_off(self, claims: Sequence[Claim]) -> None:
        self.store.release(claims, due_at=self.store.now() + RETRY_AFTER_FAILURE)

    async def _send(self, asked: Sequence[Asked], *, claimed_until: float) -> None:
        """Send the questions of claimed objects. `claimed_until`: the time of the event loop when their claims end."""
        crowded: list[Asked] = []
        for item in asked:
            if item.question is None:
                self._answered.put_nowait(item)
                continue
            member = member_of(item.question)
            if self._in_flight.get(member, 0) >= IN_FLIGHT_PER_MEMBER:
                crowded.append(item)
                continue
            self._in_flight[member] = self._in_flight.get(member, 0) + 1
            task = asyncio.create_task(self._ask(item, item.question, member, claimed_until=claimed_until))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if crowded:
            await self._in_thread(self._put_back, crowded)

    def _put_back(self, crowded: Sequence[Asked]) -> None:
        self.store.release([item.claim for item in crowded], due_at=self.store.now() + CROWDED)
        self._held.difference_update(crowded)

    async def stop(self) -> None:
        """End all requests to members, and wait until no call of the store runs. Call this when `run` has ended."""
        self._unknown = {item for item in self._open if isinstance(item.question, Ensure | Discard)}
        requests = list(self._tasks)
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, *map(asyncio.wrap_future, list(self._calls)), return_exceptions=True)

    def give_back(self) -> bool:
        """Give back what is claimed and not written, after `stop`. Return whether that is everything. Runs in a thread.

        Another process asks about these objects at once, and not when the claims have ended. Those that have ended may
        be of another process by now, and stay. So does the claim of a write that was sent: the member may carry it out
        late, and it must not come after what another process writes.
        """
        now = self.store.now()
        given_back = [item.claim for item in self._held - self._unknown if _is_claimed(item, now)]
        self.store.release(given_back)
        return not self._unknown

    async def _ask(self, request: Asked, question: Question, member: str, *, claimed_until: float) -> None:
        """Send one question and keep its answer. Nothing is sent once the claim has ended.

        Another process may have claimed the object since then. A late apply of this process would overwrite what the
        other one has applied, or create again what it has removed.
        """
        seconds = longest_answer(question)
        self._open.add(request)
        try:
            async with asyncio.timeout(seconds), asyncio.timeout_at(claimed_until) as request.claimed:
                await asyncio.sleep(0)  # a claim that has ended already cancels this, before anything is sent
                request.answer = await self.answer(question)
        except TimeoutError:
            request.answer = Answer(0, problem=f"no answer within {seconds:g} s")
        except Unanswered as error:  # a script or webhook has to answer before: the object is due again soon
            request.error = error
        except Exception as error:  # an error with one object affects only that object
            log.exception("%s: the request to member %s failed", self.controller.name, member)
            request.answer = Answer(0, problem=f"the request failed: {type(error).__name__}: {error}")
        finally:
            self._open.discard(request)
            self._in_flight[member] -= 1
        self._answered.put_nowait(request)

    async def _extending(self) -> None:
        """Extend claims while their questions are in flight, so that no other process claims these objects."""
        while True:
            await asyncio.sleep(self.extend_seconds)
            try:
                await self.extend()
            except self.host.away as error:
                log.warning("%s: the store is away: %s", self.controller.name, self.host.cause(error))

    async def extend(self) -> None:
        """Extend the claims of all questions that are not answered yet. A claim that has expired stays expired."""
        waiting = list(self._open)
        if not waiting:
            return
        claims = [(entry.claim, entry.at + CLAIM_LASTS) for entry in waiting]
        claimed_until = _time() + CLAIM_SECONDS
        now = await self._in_thread(partial(self.store.extend, claims, lease_seconds=CLAIM_SECONDS))
        for item in waiting:
            if now < item.at + CLAIM_LASTS:
                item.at = now
                if item.claimed is not None and item in self._open and not item.claimed.expired():
                    item.claimed.reschedule(claimed_until)

    async def _flushing(self) -> None:
        while True:
            batch = [await self._answered.get()]
            await asyncio.sleep(FLUSH_SECONDS)  # collects answers, so that many are written in one transaction
            while len(batch) < FLUSH_SIZE and not self._answered.empty():
                batch.append(self._answered.get_nowait())
            while True:
                try:
                    await self._in_thread(self._flush_or_put_off, batch)
                    self.wake.set()  # a decision may say when the object is due again
                    break
                except self.host.away as error:
                    log.warning("%s: the store is away; trying again: %s", self.controller.name, self.host.cause(error))
                    await asyncio.sleep(AWAY_SECONDS)

    def _flush_or_put_off(self, batch: Sequence[Asked]) -> None:
        try:
            self.flush(batch)
        except self.host.away:
            raise
        except Exception:
            log.exception(
                "controller %s could not process %d answers; its objects are tried again later",
                self.controller.name,
                len(batch),
            )
            self._put_off([item.claim for item in batch])
        self._held.difference_update(batch)

    def flush(self, batch: Sequence[Asked]) -> None:
        """Decide on a batch of answers and write the decisions. Runs in a thread.

        An answer whose claim has expired is dropped: another process may have claimed the object since. The object is
        asked about again when it is claimed next.
        """
        settings, now = self.host.settings(), self.store.now()
        answers, batch = len(batch), [request for request in batch if _is_claimed(request, now)]
        if len(batch) < answers:
            log.warning(
                "%s: %d answers came after their claims had expired; they are asked again",
                self.controller.name,
                answers - len(batch),
            )
        present = [request for request in batch if request.snapshot is not None and request.error is None]
        with phase(self.controller.name, "decide"):
            decided = iter(self._decided(present, settings, now=now))

        def decision_or_retry(request: Asked, result: Any) -> Decision:
            if not isinstance(result, Exception):
                decision: Decision = result
                return decision
            if isinstance(result, Unanswered | InterpretationFailed):
                return put_off(result, getattr(request.snapshot, "subject", None), now=now)
            self.host.keep(self._failure(request, result, settings, now=now))
            return Decision(wake_at=now + RETRY_AFTER_FAILURE)

        by = Actor(self.controller.name, controller=True)
        writes = [
            (
                request.claim,
                NOTHING if _is_gone(request) else decision_or_retry(request, request.error or next(decided)),
            )
            for request in batch
        ]
        with phase(self.controller.name, "apply"):
            outcomes = apply_decisions(self.store, writes, by=by)
        RECONCILED.labels(self.controller.name).inc(len(batch))
        refused = [
            (request.claim, decision_or_retry(request, outcome))
            for request, outcome in zip(batch, outcomes, strict=True)
            if isinstance(outcome, Unstorable)
        ]
        if refused:
            self.store.apply(refused, by=by)

    def _decided(self, present: Sequence[Asked], settings: Settings, *, now: datetime) -> list[Decision | Exception]:
        """Return the decision for each request, with answers of scripts and webhooks where it needs some."""

        def decide(indices: Sequence[int]) -> list[Decision | Exception]:
            snapshots = [present[index].snapshot for index in indices]
            answers = [present[index].answer for index in indices]
            return self.controller.decide_all(snapshots, settings, now=now, answer=answers)

        decided = decide(range(len(present)))
        decide_with_answers(decided, decide, self.host.interpret)
        return decided

    def _failure(self, request: Asked, error: Exception, settings: Settings, *, now: Any) -> Failure:
        trace = "".join(traceback.format_exception(error))
        message = f"{type(error).__name__}: {error}"
        return Failure(
            self.controller.name,
            request.claim.ref,
            request.snapshot,
            message,
            trace,
            now,
            settings=settings,
            answer=request.answer,
        )


def _time() -> float:
    return asyncio.get_running_loop().time()


def _is_gone(request: Asked) -> bool:
    return request.snapshot is None and request.error is None


def _is_claimed(request: Asked, now: datetime) -> bool:
    """Test whether an answer came before its claim ended.

    A request that was ended with its claim has no answer. By the clock of the database the claim may last longer: if
    the database made it late, the request may not even have been sent.
    """
    return now - request.at < CLAIM_LASTS and not (request.claimed is not None and request.claimed.expired())


def longest_answer(question: Question) -> float:
    """Return for how many seconds to wait for an answer.

    Longer for applies and comparisons, because objects are large, and for the lists of pods and nodes.
    """
    large = isinstance(question, Ensure | Compare | Collect)
    return LONGEST_LARGE_ANSWER_SECONDS if large else LONGEST_ANSWER_SECONDS


def member_of(question: Question) -> str:
    """Return the name of the cluster that a question is for."""
    return question.cluster if isinstance(question, Observe) else question.target.cluster

"""The members process: what is wrong with one object, troubles no other object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from django.db import OperationalError, close_old_connections, connection

from apps.clusters.client import LIST_SECONDS, LONGEST_SECONDS
from apps.members.database import DatabaseHost
from apps.members.pump import Asked, Pump, longest_answer
from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Condition, Ref
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.clusters.questions import Answer, Collect, Discard, Ensure, Observe, Question, Target
from controlplane.controllers.execution import Execution
from controlplane.controllers.probes import Probes
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.decision import Decision
from controlplane.engine.run import CLAIM_SECONDS, RETRY_AFTER_FAILURE
from controlplane.engine.state import State
from controlplane.kinds import CLUSTER, INTERPRETER_CUSTOMIZATION, WORK
from controlplane.kinds.interpreter_webhook import ALL
from controlplane.kinds.rows import Observation
from controlplane.kinds.work import Work
from tests.apps.stack import WITHIN
from tests.builders import objects
from tests.builders.bare import cluster
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)


def work(name: str, **metadata: Any) -> Work:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop", **metadata}}
    return objects.work(name, manifest=manifest, finalizers=(WORK_FINALIZER,))


@pytest.fixture
def pump(settings: Any, tmp_path: Path) -> Iterator[Pump]:
    settings.LIFEBOAT_HOME = tmp_path
    controller = Execution()
    with ThreadPoolExecutor(1) as executor:
        yield Pump(
            controller, DatabaseHost(DjangoStore(controllers=[controller]), configuration()), _never_answered, executor
        )


async def _never_answered(question: Question) -> Answer:
    raise AssertionError("no member is asked")


def test_what_a_process_that_slept_had_heard_counts_for_nothing() -> None:
    """It was stopped with an answer at hand; meanwhile another one has asked the member again."""
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))
    with ThreadPoolExecutor(1) as executor:
        sleeper, other = (
            Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor) for _ in range(2)
        )

        asked, _ = sleeper.claim()
        for one in asked:
            one.answer, one.at = Answer(0, problem="no answer"), one.at - timedelta(seconds=CLAIM_SECONDS)
        store.take_over({Probes.name: 1}, shard=0)  # its claim has run out
        again, _ = other.claim()
        for one in again:
            one.answer = Answer(200)
        other.flush(again)
        sleeper.flush(asked)

    assert (len(asked), len(again)) == (1, 1)
    (seen,) = store.rows(Observation, "key", ["member1"])["member1"]
    assert seen.status == "True"


def test_a_process_that_ends_gives_back_what_it_has_claimed() -> None:
    """Another one asks about it at once, and not when the claim has ended. What is written is not asked again."""
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, *(cluster(name).with_spec(api_endpoint=f"http://{name}") for name in ("member1", "member2")))
    with ThreadPoolExecutor(1) as executor:
        ending, other = (
            Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor) for _ in range(2)
        )
        asked, _ = ending.claim()
        written = next(one for one in asked if one.claim.ref.name == "member2")
        written.answer = Answer(200)
        ending._flush_or_put_off([written])
        assert other.claim()[0] == []

        ending.give_back()
        again, _ = other.claim()

    assert [one.claim.ref.name for one in again] == ["member1"]


@pytest.mark.parametrize(
    ("controller", "given_back"), [(Probes(), ["member1"]), (Execution(), [])], ids=["read", "write"]
)
def test_a_process_that_ends_keeps_the_claim_of_a_write_that_may_still_come_to_its_member(
    controller: Probes | Execution, given_back: list[str]
) -> None:
    """It would come after what another process writes there, and overwrite it or make again what was removed."""
    store = DjangoStore(controllers=[controller])
    joined = cluster("member1").with_spec(api_endpoint="http://member1")
    create(store, joined.with_status(conditions=(Condition("Ready", "True", ""),)), work("web"))
    sent, outcomes = asyncio.Event(), list[str]()

    async def slowly(question: Question) -> Answer:
        sent.set()
        try:
            await asyncio.Event().wait()
        finally:
            outcomes.append("ended")
        raise AssertionError("unreachable")

    async def ends() -> bool:
        running = asyncio.create_task(ending.run())
        await sent.wait()
        running.cancel()
        await asyncio.wait([running])
        await ending.stop()
        assert outcomes == ["ended"], "nothing more is sent"
        return await asyncio.to_thread(_closed, ending.give_back)

    with ThreadPoolExecutor(2) as executor:
        host = DatabaseHost(store, configuration())
        ending, other = Pump(controller, host, slowly, executor), Pump(controller, host, _never_answered, executor)
        is_everything = asyncio.run(asyncio.wait_for(ends(), WITHIN))
        again, _ = other.claim()

    assert [one.claim.ref.name for one in again] == given_back
    assert is_everything == bool(given_back)


def test_what_is_claimed_while_a_process_ends_is_given_back_as_well() -> None:
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))
    began, goes_on = Event(), Event()

    class Slow(DatabaseHost):
        """Whose first call takes until `goes_on` is set."""

        def connected(self, function: Callable[..., Any], *arguments: Any) -> Any:
            try:
                began.set()
                goes_on.wait(WITHIN)
                return super().connected(function, *arguments)
            finally:
                close_old_connections()

    async def ends() -> None:
        running = asyncio.create_task(ending.run())
        await asyncio.to_thread(began.wait, WITHIN)
        running.cancel()
        await asyncio.wait([running])
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        await ending.stop()
        await asyncio.to_thread(_closed, ending.give_back)
        goes_on.set()

    with ThreadPoolExecutor(2) as executor:
        ending = Pump(controller, Slow(store, configuration()), _never_answered, executor)
        other = Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor)
        asyncio.run(asyncio.wait_for(ends(), WITHIN))
    again, _ = other.claim()

    assert [one.claim.ref.name for one in again] == ["member1"]


def _closed(function: Callable[[], Any]) -> Any:
    try:
        return function()
    finally:
        close_old_connections()


def test_a_process_that_ends_leaves_alone_what_another_one_has_claimed_since() -> None:
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))
    with ThreadPoolExecutor(1) as executor:
        sleeper, other, third = (
            Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor) for _ in range(3)
        )
        for one in sleeper.claim()[0]:
            one.at -= timedelta(seconds=CLAIM_SECONDS)
        store.take_over({Probes.name: 1}, shard=0)  # its claim has run out
        assert len(other.claim()[0]) == 1

        sleeper.give_back()

        assert third.claim()[0] == []


def test_a_probe_that_was_not_sent_because_its_claim_came_late_is_no_failed_probe() -> None:
    """The database stood still for longer than a claim lasts. Nothing was found out about the member."""
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))

    async def send(asked: Sequence[Asked]) -> Asked:
        await late._send(asked, claimed_until=asyncio.get_running_loop().time() - 1)
        return await asyncio.wait_for(late._answered.get(), WITHIN)

    with ThreadPoolExecutor(1) as executor:
        late = Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor)
        asked, _ = late.claim()
        late.flush([asyncio.run(send(asked))])

    assert len(asked) == 1
    assert store.rows(Observation, "key", ["member1"]) == {}


def test_a_malformed_work_keeps_no_other_from_being_applied(pump: Pump, tmp_path: Path) -> None:
    """Such a Work may have been stored before its manifest was looked at."""
    ready = (
        cluster("member1")
        .with_spec(api_endpoint="http://member1")
        .with_status(conditions=(Condition("Ready", "True", ""),))
    )
    create(pump.store, ready, work("bad", annotations=None), work("good"))

    asked, _ = pump.claim()

    assert {one.claim.ref.name: one.question is not None for one in asked} == {"bad": False, "good": True}
    pump.flush(asked)
    assert [path.name for path in (tmp_path / "replay").iterdir()] == [
        "execution-work.karmada.io_Work_karmada-es-member1_bad.pickle"
    ]
    due = pump.store.next_due(["execution"])
    assert due is not None
    assert due - pump.store.now() <= RETRY_AFTER_FAILURE


class Unable(Probes):
    """Fails as a whole: as it loads, or as it decides."""

    def __init__(self, *, loads: bool) -> None:
        self.loads = loads

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        if not self.loads:
            raise TypeError("nothing can be loaded")
        return super().load(state, refs)

    def decide_all(self, *snapshots: Any, **given: Any) -> list[Decision | Exception]:
        raise TypeError("nothing can be decided")


@pytest.mark.parametrize("loads", [False, True], ids=["load", "decide"])
def test_a_controller_that_fails_as_a_whole_looks_again_and_ends_nothing_else(loads: bool) -> None:
    """What it cannot do stays due; all that is in the same process would end with it otherwise."""
    store = DjangoStore(controllers=[unable := Unable(loads=loads)])
    create(store, cluster("member1").with_spec(api_endpoint="http://member1"))
    answered = asyncio.Event()

    async def well(question: Question) -> Answer:
        answered.set()
        return Answer(200)

    async def looks_again() -> None:
        with ThreadPoolExecutor(1) as executor:
            pump = Pump(unable, DatabaseHost(store, configuration()), well, executor)
            running = asyncio.create_task(pump.run())
            while not await asyncio.to_thread(_is_put_off, store, began):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.01)
            assert answered.is_set() == loads
            running.cancel()
            await asyncio.wait([running])

    began = store.now()
    asyncio.run(asyncio.wait_for(looks_again(), WITHIN))


def _is_put_off(store: DjangoStore, began: datetime) -> bool:
    """Test whether what is due is due for want of success, not because a process has claimed it."""
    try:
        due = store.next_due([Probes.name])
        return due is not None and began + RETRY_AFTER_FAILURE <= due <= store.now() + RETRY_AFTER_FAILURE
    finally:
        close_old_connections()


def test_a_claim_whose_question_takes_long_is_extended_and_one_that_has_ended_is_not(pump: Pump) -> None:
    joined = cluster("member1").with_spec(api_endpoint="http://member1")
    create(pump.store, joined.with_status(conditions=(Condition("Ready", "True", ""),)), work("large"), work("ended"))
    asked, _ = pump.claim()
    large, ended = sorted(asked, key=lambda one: one.claim.ref.name, reverse=True)
    ended.at -= timedelta(seconds=CLAIM_SECONDS)
    claimed_at = large.at
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_due SET lease_until = clock_timestamp() + interval '1 second'")

    pump._open |= {large, ended}
    asyncio.run(pump.extend())

    with connection.cursor() as cursor:
        cursor.execute("SELECT name, lease_until - clock_timestamp() FROM objects_due WHERE controller = 'execution'")
        left = dict(cursor.fetchall())
    assert left["large"] > timedelta(seconds=CLAIM_SECONDS - 5)
    assert left["ended"] <= timedelta(seconds=1)
    assert large.at > claimed_at > ended.at


def test_a_running_pump_extends_the_claims_of_its_open_questions(settings: Any, tmp_path: Path) -> None:
    """A large object on a loaded member takes longer than a claim lasts; no other process asks meanwhile."""
    settings.LIFEBOAT_HOME = tmp_path
    store = DjangoStore(controllers=[controller := Execution()])
    joined = cluster("member1").with_spec(api_endpoint="http://member1")
    create(store, joined.with_status(conditions=(Condition("Ready", "True", ""),)), work("large"))
    asked, answered = asyncio.Event(), asyncio.Event()
    questions: list[Question] = []

    async def slowly(question: Question) -> Answer:
        questions.append(question)
        asked.set()
        await answered.wait()
        return Answer(200, {"metadata": {}})

    async def runs() -> None:
        with ThreadPoolExecutor(2) as executor:
            running = asyncio.create_task(
                Pump(controller, DatabaseHost(store, configuration()), slowly, executor, extend_seconds=0.05).run()
            )
            await asked.wait()
            await asyncio.to_thread(_shorten_claims)
            while await asyncio.to_thread(_claim_lasts) < timedelta(seconds=CLAIM_SECONDS - 5):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.02)
            answered.set()
            while await asyncio.to_thread(_claim_lasts) > timedelta(0):  # the answer is written under the claim
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(runs(), WITHIN))
    assert len(questions) == 1
    (applied,) = [found.status.conditions for found in store.list(WORK)]
    assert [(one.type, one.status) for one in applied if one.type == "Applied"] == [("Applied", "True")]


@pytest.mark.parametrize(("extended", "outcome"), [(False, "ended"), (True, "answered")])
def test_a_request_ends_with_its_claim_and_lasts_as_long_as_the_claim_is_extended(
    extended: bool, outcome: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that cannot reach the database must not write to a member what another process writes meanwhile."""
    settings.LIFEBOAT_HOME = tmp_path
    monkeypatch.setattr("apps.members.pump.CLAIM_SECONDS", 0.5)
    monkeypatch.setattr("apps.members.pump.CLAIM_LASTS", timedelta(seconds=0.5))
    store = DjangoStore(controllers=[controller := Execution()])
    joined = cluster("member1").with_spec(api_endpoint="http://member1")
    create(store, joined.with_status(conditions=(Condition("Ready", "True", ""),)), work("large"))
    extend, tries, answers, outcomes = store.extend, count(1), asyncio.Event(), list[str]()

    async def slowly(question: Question) -> Answer:
        try:
            await answers.wait()
            outcomes.append("answered")
            return Answer(200, {"metadata": {}})
        except asyncio.CancelledError:
            outcomes.append("ended")
            raise

    async def runs() -> None:
        loop = asyncio.get_running_loop()

        def tried(claims: Any, *, lease_seconds: float) -> datetime:
            if next(tries) > 40:  # 2 s: four times as long as a claim
                loop.call_soon_threadsafe(answers.set)
            if not extended:
                raise OperationalError("the database is away")
            return extend(claims, lease_seconds=lease_seconds)

        monkeypatch.setattr(store, "extend", tried)
        with ThreadPoolExecutor(2) as executor:
            pump = Pump(controller, DatabaseHost(store, configuration()), slowly, executor, extend_seconds=0.05)
            running = asyncio.create_task(pump.run())
            while not outcomes:
                assert not running.done(), running.exception()
                await asyncio.sleep(0.02)
            running.cancel()
            await asyncio.wait([running])

    asyncio.run(asyncio.wait_for(runs(), WITHIN))

    assert outcomes[0] == outcome


def _shorten_claims() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_due SET lease_until = clock_timestamp() + interval '2 seconds'")
    close_old_connections()


def _claim_lasts() -> timedelta:
    """Return how long the claim on a Work still lasts; 0: there is none."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT coalesce(max(lease_until) - clock_timestamp(), interval '0') FROM objects_due"
                " WHERE controller = 'execution' AND lease_until > clock_timestamp()"
            )
            return cursor.fetchone()[0]
    finally:
        close_old_connections()


def test_only_an_apply_and_the_lists_of_a_large_member_may_take_longer_than_a_claim_lasts() -> None:
    target = Target("member1", "http://member1")

    assert longest_answer(Ensure(target, {}, False)) > 2 * LONGEST_SECONDS  # one request reads, another one applies
    assert longest_answer(Collect(target, resources=True)) >= LIST_SECONDS
    for question in (Discard(target, {}), Observe("member1", {})):
        assert longest_answer(question) < CLAIM_SECONDS


def test_a_damaged_document_keeps_no_other_object_from_hearing_of_a_change() -> None:
    """No cluster was probed by the new settings any more, as long as one of them could not be read."""
    store = DjangoStore(controllers=[controller := Probes()])
    create(store, *(cluster(name).with_spec(api_endpoint=f"http://{name}") for name in ("member1", "bad", "member2")))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
        table = object_table(CLUSTER).name
        cursor.execute(f"UPDATE {table} SET doc = jsonb_set(doc::jsonb, '{{spec}}', '[]')::text WHERE name = 'bad'")
    store.mark("probes", [FLEET])
    with ThreadPoolExecutor(1) as executor:
        pump = Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor)

        assert pump.claim()[0] == []
        asked, _ = pump.claim()

    assert {one.claim.ref.name for one in asked} == {"member1", "bad", "member2"}


def test_a_cursor_of_another_release_stops_no_other_object_and_begins_the_fan_out_again() -> None:
    """All that was claimed with it was put off, in each turn, as long as the earlier release ran."""
    store = DjangoStore(controllers=[controller := WorkStatus()])
    create(store, cluster("member1"), objects.binding("web", None), work("settings"))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
    store.mark("work_status", [every := Ref(INTERPRETER_CUSTOMIZATION, "", ALL), *works(store)])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_due SET cursor = 'policy>0#x' WHERE kind = %s", [every.kind])
    with ThreadPoolExecutor(1) as executor:
        pump = Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor)

        asked, _ = pump.claim()

    assert [one.claim.ref for one in asked] == works(store)
    with connection.cursor() as cursor:
        cursor.execute("SELECT cursor, due_at > clock_timestamp() FROM objects_due WHERE kind = %s", [every.kind])
        assert cursor.fetchall() == [("", True)]


def works(store: DjangoStore) -> list[Ref]:
    return [one.ref for one in store.list(WORK)]

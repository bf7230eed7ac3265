"""What one object's decision cannot have stored costs the others of its batch nothing."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from apps.members.database import DatabaseHost
from apps.members.pump import Asked, Pump
from apps.objects.batch import MAX_OBJECTS
from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.questions import Answer, Question
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership
from controlplane.engine.decision import Decision, Event, Put, Save
from controlplane.engine.failure import Failure
from controlplane.engine.run import RETRY_AFTER_FAILURE, Report, World, run_batch
from controlplane.engine.state import Actor, Unstorable
from controlplane.engine.unstorable import apply_decisions
from controlplane.kinds import EVENT, RESOURCE_BINDING
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.rows import CapacityReservation, Row
from controlplane.settings import Settings
from tests.builders.bare import binding, cluster, template
from tests.stores.grounds import PLACER, USER, Placer, create, stored, write

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = ("a", "b", "y", "z")
ENDLESS = "".join(random.Random(1).choices(string.ascii_letters, k=9000))  # more than an index takes, however packed

UNSTORABLE: dict[str, Any] = {
    "a number out of range": Save(CapacityReservation(key="k", replicas=1 << 63)),
    "a text too long for an index": Save(CapacityReservation(key="k", cluster=ENDLESS)),
    "a text that is none": Save(CapacityReservation(key="k", request="\ud800")),
}


class Careless(Placer):
    """Places every binding; what it decides of "bad" besides cannot be stored."""

    owns = Ownership({RESOURCE_BINDING: ("spec.clusters",)}, rows=(CapacityReservation,))
    also: ClassVar[Save]

    def decide(self, snapshot: Binding, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        put = Put(snapshot.with_spec(clusters=(TargetCluster("member2", 1),)), snapshot)
        return Decision(changes=(put, self.also) if snapshot.metadata.name == "bad" else (put,))


class Sweeper(Careless):
    """The same, of all that a cluster concerns at once."""

    decides_in_fan_out = True


class Steward(Careless):
    """The same, in decisions of their own beside that of a single key."""

    def load(self, state: Any, refs: Sequence[Ref]) -> Sequence[Any]:
        return [tuple(state.list(RESOURCE_BINDING)) for _ in refs]

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        return Decision(
            separate_decisions=tuple(super(Steward, self).decide(one, settings, now=now) for one in snapshot)
        )


class Reporter(MemberController, Placer):
    """Keeps with each binding what a member answered about it."""

    def decide(self, snapshot: Binding, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        put = Put(snapshot.with_spec(clusters=(TargetCluster("member2", 1),)), snapshot)
        reported = CapacityReservation(key=snapshot.metadata.name, binding="reported", replicas=answer.code)
        return Decision(changes=(put, Save(reported)))


@pytest.fixture(params=UNSTORABLE.values(), ids=UNSTORABLE)
def change(request: pytest.FixtureRequest) -> Save:
    found: Save = request.param
    return found


def work(controller: Careless, store: DjangoStore, change: Save) -> tuple[Report, list[Failure]]:
    """Run one batch."""
    type(controller).also = change
    failures: list[Failure] = []
    return run_batch(controller, store, Settings(), world=World(report=failures.append)), failures


def placed(store: DjangoStore) -> list[str]:
    return [one.metadata.name for one in store.list(RESOURCE_BINDING) if one.spec.target("member2")]


def kept(store: DjangoStore) -> list[Row]:
    return [row for rows in store.rows(CapacityReservation, "key", ["k"]).values() for row in rows]


def test_the_others_are_written_and_it_is_looked_at_again_later(change: Save) -> None:
    store = DjangoStore(controllers=[controller := Careless()])
    create(store, *map(binding, (*GOOD, "bad")))
    before = store.now()

    report, failures = work(controller, store, change)

    assert placed(store) == list(GOOD)
    assert kept(store) == []
    assert [(one.ref.name, one.error.partition(":")[0]) for one in failures] == [("bad", "Unstorable")]
    assert (report.claimed, report.stored, report.failures) == (5, 4, tuple(failures))
    assert store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=0).claims == ()
    due = store.next_due(["placer"])
    assert due is not None
    assert RETRY_AFTER_FAILURE - timedelta(seconds=1) < due - before < RETRY_AFTER_FAILURE + timedelta(minutes=1)


def test_of_decisions_beside_one_the_others_are_written(change: Save) -> None:
    store = DjangoStore(controllers=[controller := Steward()])
    create(store, *map(binding, (*GOOD, "bad")))

    work(controller, store, change)

    assert placed(store) == list(GOOD)
    assert kept(store) == []


def test_a_fan_out_leaves_it_to_be_looked_at_on_its_own(change: Save) -> None:
    store = DjangoStore(controllers=[controller := Sweeper()])
    create(store, *(binding(name, "member1") for name in (*GOOD, "bad")))
    claims = store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=60).claims
    store.apply([(one, Decision()) for one in claims], by=PLACER)
    create(store, cluster("member1"))

    swept, none = work(controller, store, change)
    assert (placed(store), swept.expanded, none) == (list(GOOD), 1, [])
    _, failures = work(controller, store, change)

    assert [one.ref.name for one in failures] == ["bad"]
    assert kept(store) == []


def test_what_a_member_says_of_one_object_does_not_hide_what_is_said_of_others(settings: Any, tmp_path: Path) -> None:
    """Members are other people's machines: a number of theirs may be anything."""
    settings.LIFEBOAT_HOME = tmp_path
    store = DjangoStore(controllers=[controller := Reporter()])
    made = create(store, *map(binding, (*GOOD, "bad")))
    claims = store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=60).claims
    found = {one.ref: one for one in made}
    said = {claim.ref: Answer(1 << 63 if claim.ref.name == "bad" else 200) for claim in claims}
    with ThreadPoolExecutor(1) as executor:
        pump = Pump(controller, DatabaseHost(store, configuration()), _never_answered, executor)
        pump.flush([Asked(claim, store.now(), found[claim.ref], None, said[claim.ref]) for claim in claims])

    assert {
        row.key for rows in store.rows(CapacityReservation, "binding", ["reported"]).values() for row in rows
    } == set(GOOD)
    assert placed(store) == list(GOOD)
    assert store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=0).claims == ()
    assert store.next_due(["placer"]) is not None
    assert [path.name for path in (tmp_path / "replay").iterdir()] == [
        "placer-work.karmada.io_ResourceBinding_shop_bad.pickle"
    ]


def test_what_was_written_before_it_in_a_transaction_of_its_own_is_not_reported_again(change: Save) -> None:
    store = DjangoStore()
    abouts = [template(f"a{number}") for number in range(MAX_OBJECTS + 20)]
    batch = [(None, Decision(events=(Event(about, "Reported", "once"),))) for about in abouts]
    batch.insert(MAX_OBJECTS, (None, Decision(changes=(change,))))

    outcomes = apply_decisions(store, batch, by=Actor("test"))

    assert [place for place, one in enumerate(outcomes) if isinstance(one, Unstorable)] == [MAX_OBJECTS]
    assert len(outcomes) == len(batch)
    reported = list(store.list(EVENT))
    assert len(reported) == len(abouts)
    assert {one.count for one in reported} == {1}


async def _never_answered(question: Question) -> Answer:
    raise AssertionError("no member is asked")


def test_a_user_gets_the_cause_and_nothing_of_it_is_written(change: Save) -> None:
    store = DjangoStore(controllers=[Careless()])

    with pytest.raises(Unstorable):
        write(store, Put(template("beside"), None), change, by=USER)

    assert stored(store, template("beside")) is None
    assert write(store, Put(template("beside"), None), by=Actor("jane")).lost == ""

"""One binding whose stored document cannot be read keeps no other from leaving a cluster or going back to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.controllers.drains import Drains
from controlplane.controllers.failbacks import Failbacks
from controlplane.engine.decision import Decision, Put
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import WorkloadAffinityGroups
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drain import DRAIN, Drain, DrainSpec
from controlplane.kinds.failback import FAILBACK, Failback, FailbackSpec
from controlplane.kinds.rows import EVICTED, HELD
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import duplicated
from tests.core.test_failbacks import away
from tests.stores.grounds import USER
from tests.stores.test_queue_at_size import API, Fleet, on, ref

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@contextmanager
def damaged(name: str) -> Iterator[None]:
    """Let the document of a binding be none for a while, as after a write by hand."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT doc FROM resources_binding WHERE name = %s", [name])
        ((text,),) = cursor.fetchall()
        change = "UPDATE resources_binding SET doc = %s WHERE name = %s"
        cursor.execute(change, ['{"spec": 3}', name])
        yield
        cursor.execute(change, [text, name])


def test_the_others_are_evicted_and_it_is_too_once_it_can_be_read_again() -> None:
    fleet = Fleet(DjangoStore, *(on(name, "first") for name in ("a", "b", "c")), slots=9)
    fleet.fill()
    with damaged("b-deployment"):
        for _ in range(3):
            fleet.look()
        assert {row.binding for row in fleet.rows(EVICTED)} == {str(ref("a")), str(ref("c"))}
        (held,) = fleet.rows(HELD)
        assert (held.binding, held.reason) == (str(ref("b")), "Unreadable")
        assert fleet.store.next_eviction() is None, "Drains and Failbacks wait for what is due"

    fleet.capacity_moves()
    assert fleet.looks_until_evicted("b", most=4)


def test_it_leaves_the_queue_when_its_cluster_recovers() -> None:
    fleet = Fleet(DjangoStore, on("a", "first"))
    fleet.fill()
    with damaged("a-deployment"):
        fleet.look()
        assert [row.reason for row in fleet.rows(HELD)] == ["Unreadable"]
        fleet.edit(Ref(CLUSTER, "", "first"), lambda one: one.with_spec(taints=()))
        fleet.look()
        assert fleet.rows(HELD) == []


def test_only_those_of_its_group_wait_with_it() -> None:
    grouped = [
        on(name, "first").with_spec(workload_affinity_groups=WorkloadAffinityGroups(affinity_group="g"))
        for name in ("a", "b")
    ]
    fleet = Fleet(DjangoStore, *grouped, on("c", "first"), slots=9)
    fleet.fill()
    with damaged("b-deployment"):
        for _ in range(3):
            fleet.look()
        assert [row.binding for row in fleet.rows(EVICTED)] == [str(ref("c"))]
        assert {row.binding for row in fleet.rows(HELD)} == {str(ref("a")), str(ref("b"))}


def decided(controller: Any, *found: Any, asked: Any) -> Decision:
    """Return what a controller decides about a Drain or Failback while the document of b cannot be read."""
    store: Any = DjangoStore(controllers=[controller])
    assert not any(
        one.lost for one in store.apply([(None, Decision(changes=(Put(one, None),))) for one in found], by=USER)
    )
    with damaged("b-deployment"):
        (snapshot,) = controller.load(store, [asked.ref])
    decision: Decision = controller.decide(snapshot, Settings(), now=store.now() + timedelta(seconds=60))
    return decision


def status(decision: Decision, kind: str) -> Any:
    (new,) = [change.new for change in decision.changes if isinstance(change, Put) and change.new.ref.kind == kind]
    return new.status  # type: ignore[attr-defined]


def test_a_drain_moves_the_others_and_names_it() -> None:
    cordon = Taint(UNSCHEDULABLE_TAINT, "NoSchedule", time_added=None)
    asked = Drain(API, "Drain", ObjectMeta(name="upgrade", uid="u", generation=1), DrainSpec("full", 1000))
    asked = asked.with_status(counted_at=START)  # it has tokens
    each = [binding(name, duplicated("full", "spare", least=1, most=1), on={"full": 2}) for name in "abc"]
    found = cluster("full", taints=[cordon]), cluster("spare"), *each, asked

    decision = decided(Drains(), *found, asked=asked)

    left = status(decision, DRAIN)
    assert [(one.binding, "is no document" in one.message) for one in left.cannot_leave] == [(str(ref("b")), True)]
    assert (left.blocked, left.moved) == (1, 2)


def test_a_failback_returns_the_others_and_names_it() -> None:
    asked = Failback(API, "Failback", ObjectMeta(name="back", uid="u", generation=1), FailbackSpec("home", rate=1000))
    asked = asked.with_status(counted_at=START)
    found = cluster("home"), cluster("spare"), *(away(name) for name in "abc"), asked

    decision = decided(Failbacks(), *found, asked=asked)

    back = status(decision, FAILBACK)
    assert [(one.binding, "is no document" in one.message) for one in back.cannot_return] == [(str(ref("b")), True)]
    assert [one.binding for one in back.returning] == [str(ref("a")), str(ref("c"))]

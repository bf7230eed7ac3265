"""A template, its binding, placement and Works are one transaction: a session that ends in it leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection

from apps.objects.store import DjangoStore
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import work_name
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import LeaseLost
from controlplane.kinds.policy import Placement, ReplicaSchedulingStrategy
from controlplane.kinds.rows import CapacityReservation
from controlplane.settings import Settings
from tests.builders.objects import cluster, policy, work
from tests.builders.templates import deployment
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

WEB = deployment("web")
BINDING = Ref(kinds.RESOURCE_BINDING, "default", "web-deployment")
CHAIN = ("policies", "scheduler", "works")
GROUP = [one for one in CONTROLLERS if one.name in CHAIN]
POLICIES = next(one for one in GROUP if one.name == "policies")
TABLES = (
    *("objects_object", "resources_binding", "resources_work", "objects_changelog", "resources_targetcluster"),
    *("scheduling_capacityreservation", "objects_due"),
)


def stored() -> DjangoStore:
    """Return a store with two clusters and a template that a policy selects; only the template is due."""
    setup = DjangoStore()
    everywhere = policy(placement=Placement(replica_scheduling=ReplicaSchedulingStrategy()))
    create(setup, cluster("member1"), cluster("member2"), everywhere, WEB)
    store = DjangoStore(controllers=CONTROLLERS)
    store.mark("policies", [WEB.ref])
    return store


def due_now(store: DjangoStore) -> set[str]:
    """Return the controllers of the group that can claim a row now."""
    until = store.seconds_until_due({one.name: 1 for one in GROUP}, shard=0)
    return {name for name, seconds in until.items() if seconds <= 0}


def step(store: DjangoStore) -> int:
    """Run one batch of policies under the lease of its group; return how many decisions were stored."""
    lease = store.take_lease(POLICIES.group, 0, holder="test", seconds=30)
    assert lease is not None
    following = followers(POLICIES, GROUP, Settings())
    return run_batch(POLICIES, store, Settings(), world=World(), lease=lease, following=following).stored


@contextmanager
def ending_sessions_that_write(table: str) -> Iterator[None]:
    """Let the server end each session that inserts into or updates a table, in the middle of its transaction."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION end_session() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        cursor.execute(
            f"CREATE TRIGGER ends AFTER INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION end_session()"
        )
    try:
        yield
    finally:
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION end_session CASCADE")


@pytest.mark.parametrize("table", TABLES)
def test_a_session_that_ends_within_the_step_leaves_nothing_and_the_next_step_writes_everything(table: str) -> None:
    store = stored()
    before = store.current_version()

    with ending_sessions_that_write(table), pytest.raises(OperationalError):
        step(store)

    assert store.current_version() == before
    assert store.get([BINDING]) == {}
    assert store.get([WEB.ref])[WEB.ref].metadata.labels == WEB.metadata.labels
    assert not store.rows(CapacityReservation, "binding", [str(BINDING)])
    assert step(store) == 1
    assert len(store.list(kinds.WORK)) == 2


def test_a_foreign_work_keeps_no_binding_from_being_created() -> None:
    store = stored()
    create(DjangoStore(), work(work_name("Deployment", "web", "default")))

    assert step(store) == 1

    assert BINDING in store.get([BINDING])
    assert due_now(store) == {"scheduler"}


def test_the_change_log_names_each_writer_and_has_the_binding_once() -> None:
    store = stored()
    before = store.current_version()

    step(store)

    written = [line for line in store.changes(before, limit=100) if line.ref.kind != "Event"]
    assert sorted((line.actor, line.reason, line.type, line.ref.kind) for line in written) == [
        ("policies", "ApplyPolicy", "ADDED", kinds.RESOURCE_BINDING),
        ("policies", "ApplyPolicy", "MODIFIED", "apps/Deployment"),
        ("works", "SyncWork", "ADDED", kinds.WORK),
        ("works", "SyncWork", "ADDED", kinds.WORK),
    ]
    assert due_now(store) == set()


def test_a_lease_that_has_passed_writes_nothing_of_the_step() -> None:
    store = stored()
    before = store.current_version()
    lease = store.take_lease(POLICIES.group, 0, holder="first", seconds=30)
    assert lease is not None
    store.drop_lease(lease, holder="first")
    assert store.take_lease(POLICIES.group, 0, holder="second", seconds=30) is not None

    with pytest.raises(LeaseLost, match="has passed"):
        run_batch(
            POLICIES,
            store,
            Settings(),
            world=World(),
            lease=lease,
            following=followers(POLICIES, GROUP, Settings()),
        )

    assert store.current_version() == before
    assert store.get([BINDING]) == {}

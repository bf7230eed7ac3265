"""An eviction, its placement and the time of the next look at it are one transaction in PostgreSQL."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.decision import Decision, Save
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor
from controlplane.eviction.rate import Tokens
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import EVICTED, Eviction, FleetState
from tests.builders.objects import binding, cluster, no_execute
from tests.core.eviction_fleet import ANYWHERE, FAST
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

BY_NAME = {one.name: one for one in CONTROLLERS}
GRACE = timedelta(seconds=FAST.graceful_eviction_timeout)
WORLD = World(answer=lambda question: Tokens(dict(question.wanted), 0.0) if hasattr(question, "wanted") else None)


def queued(count: int) -> DjangoStore:
    """Return a store in which so many bindings on member1 are in the eviction queue."""
    store = DjangoStore(controllers=CONTROLLERS)
    row = FleetState("default", failover_on_since=store.now() - timedelta(hours=1))
    store.apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
    lost = cluster("member1").with_spec(taints=(no_execute(at=store.now()),))
    bindings = (binding(f"web{number}", ANYWHERE, on={"member1": 1}) for number in range(count))
    create(store, lost, cluster("member2"), cluster("member3"), *bindings)
    while run_batch(BY_NAME["eviction_queue"], store, FAST, world=WORLD).claimed:
        pass
    return store


def looks(store: DjangoStore) -> list[float]:
    """Return in how many seconds graceful_eviction looks at each binding."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT extract(epoch FROM due_at - clock_timestamp()) FROM objects_due"
            " WHERE controller = 'graceful_eviction' AND kind = %s",
            [RESOURCE_BINDING],
        )
        return [float(seconds) for (seconds,) in cursor.fetchall()]


def test_an_evicted_binding_is_placed_and_looked_at_again_when_its_grace_period_ends() -> None:
    store = queued(3)
    before: datetime = store.now()
    evictions = BY_NAME["evictions"]

    run_batch(evictions, store, FAST, world=WORLD, following=followers(evictions, CONTROLLERS, FAST))

    written = [line for line in store.changes(0, limit=1000) if line.ref.kind == RESOURCE_BINDING]
    assert [line.actor for line in written if line.type == "MODIFIED"] == ["evictions"] * 3
    assert len(store.rows(Eviction, "state", [EVICTED])[EVICTED]) == 3
    passed = (store.now() - before).total_seconds()
    left = [seconds - GRACE.total_seconds() for seconds in looks(store)]
    assert len(left) == 3
    assert all(-1 - passed <= seconds <= passed for seconds in left), left  # a task has whole seconds

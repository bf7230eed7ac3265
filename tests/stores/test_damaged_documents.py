"""A document that cannot be decoded costs only what depends on it: a later release wrote it, or it is damaged."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.run import World, run_batch
from controlplane.eviction.rate import Tokens
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import EVICTED, HELD, UNREADABLE, Eviction
from tests.core.eviction_fleet import FAST
from tests.stores.test_evicting_cascade import queued

pytestmark = pytest.mark.django_db(transaction=True)

BY_NAME = {one.name: one for one in CONTROLLERS}
WORLD = World(answer=lambda question: Tokens(dict(question.wanted), 0.0) if hasattr(question, "wanted") else None)


def damage(ref: Ref, spec: str = "[]") -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {object_table(ref.kind).name} SET doc = jsonb_set(doc::jsonb, '{{spec}}', '{spec}')::text"
            " WHERE (kind, namespace, name) = (%s, %s, %s)",
            ref,
        )
        assert cursor.rowcount == 1


def evict(store: DjangoStore) -> None:
    evictions = BY_NAME["evictions"]
    report = run_batch(evictions, store, FAST, world=WORLD, following=followers(evictions, CONTROLLERS, FAST))
    assert report.failures == ()


def test_a_damaged_binding_in_the_queue_keeps_no_other_copy_from_being_evicted() -> None:
    """It stopped all evictions of the fleet."""
    store = queued(5)
    bad = Ref(RESOURCE_BINDING, "default", "web2-deployment")
    damage(bad)

    evict(store)

    evicted = store.rows(Eviction, "state", [EVICTED])[EVICTED]
    assert sorted(Ref.parse(row.binding).name for row in evicted) == [
        f"web{number}-deployment" for number in (0, 1, 3, 4)
    ]
    (held,) = store.rows(Eviction, "state", [HELD])[HELD]
    assert (held.binding, held.reason) == (str(bad), UNREADABLE)
    assert "ResourceBinding default/web2-deployment is no document of its kind" in held.message


def test_a_binding_that_can_be_read_again_is_evicted() -> None:
    store = queued(2)
    bad = Ref(RESOURCE_BINDING, "default", "web1-deployment")
    with connection.cursor() as cursor:
        cursor.execute("SELECT doc::jsonb->>'spec' FROM resources_binding WHERE name = 'web1-deployment'")
        (spec,) = cursor.fetchone()
    damage(bad)
    evict(store)

    damage(bad, spec)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE failover_fleetstate SET capacity = 'stale'")  # as after HELD_LOOK
    for _ in range(3):
        store.mark("evictions", BY_NAME["evictions"].due_at_start, due_at=store.now() - timedelta(seconds=1))
        evict(store)

    assert len(store.rows(Eviction, "state", [EVICTED])[EVICTED]) == 2

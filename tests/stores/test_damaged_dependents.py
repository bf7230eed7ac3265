"""A dependent whose document cannot be read stays after its owner, and keeps no other from being collected."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Object, OwnerReference, Ref
from controlplane.controllers.owners import Owners
from controlplane.engine import lifecycle
from controlplane.engine.lifecycle import BACKGROUND, FOREGROUND
from controlplane.engine.run import Report, World, run_batch
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.templates import config_map
from tests.stores.grounds import create, write

pytestmark = pytest.mark.django_db(transaction=True)


def dependent(name: str, *owners: Object) -> Template:
    references = tuple(
        OwnerReference("v1", "ConfigMap", one.metadata.name, one.metadata.uid, block_owner_deletion=True)
        for one in owners
    )
    return config_map(name, owner_references=references)


def damage(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE objects_object SET doc = jsonb_set(doc::jsonb, '{metadata,labels}', '[]')::text"
            " WHERE name = %s RETURNING doc",
            [name],
        )
        assert cursor.rowcount == 1


def collect(store: DjangoStore) -> Report:
    """Look several times at everything that becomes due. Return what came of the last time."""
    for _ in range(5):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE objects_due SET due_at = now() - interval '1 second'")
        report = run_batch(Owners(), store, Settings(), world=World())
    return report


def names() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM objects_object ORDER BY name")
        return [name for (name,) in cursor.fetchall()]


def deleted(store: DjangoStore, owner: Ref, policy: str) -> None:
    (live,) = store.get([owner]).values()
    write(store, lifecycle.request_deletion(live, now=store.now(), policy=policy))


@pytest.mark.parametrize(("policy", "left"), [(BACKGROUND, ["bad"]), (FOREGROUND, ["bad", "owner"])])
def test_a_damaged_dependent_keeps_no_other(policy: str, left: list[str]) -> None:
    """With the policy Foreground the owner waits for it, because it may block the owner's deletion."""
    store = DjangoStore(controllers=[Owners()])
    (owner,) = create(store, config_map("owner"))
    create(store, dependent("bad", owner), dependent("first", owner), dependent("second", owner))
    damage("bad")
    deleted(store, owner.ref, policy)

    (failure,) = collect(store).failures

    assert names() == left
    assert failure.ref == owner.ref
    assert "default/bad" in failure.error


def test_a_dependent_of_another_owner_that_cannot_be_read_stays_and_keeps_no_other() -> None:
    store = DjangoStore(controllers=[Owners()])
    owner, other = create(store, config_map("owner"), config_map("other"))
    create(store, dependent("both", owner, other), dependent("first", owner))
    damage("other")
    deleted(store, owner.ref, BACKGROUND)

    failures = collect(store).failures

    assert names() == ["both", "other"]
    assert owner.ref in [failure.ref for failure in failures]

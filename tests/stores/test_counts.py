"""The number of objects that a list names is counted once and brought up to date from the change log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from apps.objects import change_log, counts
from apps.objects.store import DjangoStore
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.decision import Decision, Delete, Put, Save
from controlplane.engine.state import Actor
from tests.apps.statements import statements
from tests.builders.objects import eviction
from tests.builders.templates import config_map, deployment
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)

KIND = "apps/Deployment"
BY = Actor("test")


@pytest.fixture(autouse=True)
def _another_database() -> Iterator[None]:
    counts.forget()
    yield
    counts.forget()


def many(count: int, prefix: str = "web", namespace: str = "default") -> list[Object]:
    return [deployment(f"{prefix}{number}", namespace=namespace) for number in range(count)]


def numbers(store: DjangoStore) -> dict[str, int]:
    """Return the numbers of Deployments, in all namespaces and in two of them."""
    version, namespaces = store.current_version(), ("", "default", "shop")
    return {namespace: counts.number_at(KIND, namespace=namespace, version=version) for namespace in namespaces}


def counted() -> dict[str, int]:
    """Return the same, counted."""
    found = {}
    with connection.cursor() as cursor:
        for namespace in ("", "default", "shop"):
            cursor.execute(
                f"SELECT count(*) FROM {object_table(KIND).name} WHERE kind = %s AND (%s = '' OR namespace = %s)",
                [KIND, namespace, namespace],
            )
            found[namespace] = cursor.fetchone()[0]
    return found


def test_a_count_follows_what_is_created_changed_and_removed() -> None:
    store = DjangoStore()
    create(store, *many(40), *many(3, namespace="shop"))
    assert numbers(store) == counted() == {"": 43, "default": 40, "shop": 3}

    create(store, *many(2, "more"), config_map("other"))
    gone = [store.get([Ref(KIND, "default", f"web{n}")])[Ref(KIND, "default", f"web{n}")] for n in range(3)]
    store.apply([(None, Decision(changes=(Delete(one),))) for one in gone[:2]], by=BY)
    store.apply([(None, Decision(changes=(Put(gone[2].with_meta(labels={"a": "b"}), gone[2]),)))], by=BY)
    store.apply([(None, Decision(changes=(Save(eviction("web3")),)))], by=BY)

    assert numbers(store) == counted() == {"": 43, "default": 40, "shop": 3}


def test_after_few_changes_nothing_is_counted_again() -> None:
    store = DjangoStore()
    create(store, *many(40))
    numbers(store)
    create(store, *many(5, "more"))

    with statements() as sent:
        assert counts.number_at(KIND, namespace="", version=store.current_version()) == 45
        assert counts.number_at(KIND, namespace="", version=store.current_version()) == 45

    assert not [one for one in sent if f"FROM {object_table(KIND).name}" in one]
    assert len([one for one in sent if change_log.TABLE in one]) == 1


@pytest.mark.parametrize("more", ["many changes", "versions that are not in the log", "an older version"])
def test_what_the_log_does_not_tell_is_counted(more: str) -> None:
    store = DjangoStore()
    create(store, *many(12))
    first = store.current_version()
    create(store, *many(12, "second"))
    numbers(store)
    if more == "many changes":
        create(store, *many(20, "third"))
    elif more == "versions that are not in the log":
        with connection.cursor() as cursor:  # as after a restore
            cursor.execute("UPDATE objects_counter SET version = version + 2")
        create(store, *many(2, "third"))
    else:
        assert counts.number_at(KIND, namespace="", version=first) == 12

    assert numbers(store) == counted()


def test_a_count_is_that_of_the_version_of_the_list_and_not_a_newer_one() -> None:
    store = DjangoStore()
    create(store, *many(12))
    version = store.current_version()
    create(store, *many(3, "later"))

    assert counts.number_at(KIND, namespace="default", version=version) == 12


def test_counts_that_are_kept_are_limited(monkeypatch: Any) -> None:
    monkeypatch.setattr(counts, "MOST_KEPT", 2)
    store = DjangoStore()
    create(store, *many(4))

    assert numbers(store) == counted()
    assert len(counts._known) <= 2

"""A transaction that wrote other rows than it sent is refused by the database, whatever the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import InternalError, connection

from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Object
from controlplane.engine.decision import Decision, Delete, Event, Put, Save
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.rows import CapacityReservation
from tests.builders.bare import binding, template
from tests.stores.grounds import USER, controllers, create, due_refs, write

pytestmark = pytest.mark.django_db(transaction=True)

BINDINGS = "resources_binding"
LOG = "objects_changelog"


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=controllers())


@contextmanager
def swallowing(table: str, operation: str) -> Iterator[None]:
    """Let a trigger leave the row named "lost" as it is, whichever session writes it: no error, no row."""
    row = "OLD" if operation == "DELETE" else "NEW"
    with connection.cursor() as cursor:
        cursor.execute(f"""
            CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN IF {row}.name = 'lost' THEN RETURN NULL; END IF; RETURN {row}; END $$""")
        cursor.execute(f"CREATE TRIGGER swallow BEFORE {operation} ON {table} FOR EACH ROW EXECUTE FUNCTION swallow()")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION swallow CASCADE")


def everything(store: DjangoStore) -> dict[str, Any]:
    """Return all that a transaction of these tests writes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM scheduling_capacityreservation")
        reservations = cursor.fetchone()
    return {
        "objects": store.documents(RESOURCE_BINDING) + store.documents("ConfigMap"),
        "version": store.current_version(),
        "log": store.changes(0),
        "reservations": reservations,
        "due": due_refs(store),
    }


CHANGES: dict[str, Callable[[Any], Put | Delete]] = {
    "INSERT": lambda old: Put(old, None),
    "UPDATE": lambda old: Put(old.with_spec(replicas=9), old),
    "DELETE": Delete,
}


@pytest.mark.parametrize("operation", CHANGES)
@pytest.mark.parametrize("table", [BINDINGS, LOG])
def test_one_row_less_than_sent_and_nothing_is_kept(store: DjangoStore, operation: str, table: str) -> None:
    some: list[Object] = [binding("kept", "member1"), binding("lost", "member1"), binding("kept-too", "member2")]
    if operation != "INSERT":
        some = create(store, *some)
    before = everything(store)
    beside = (Put(template("beside"), None), Save(CapacityReservation(key="reserved")))
    decision = Decision(
        changes=(*(CHANGES[operation](one) for one in some), *beside), events=(Event(some[0], "Reported", "reported"),)
    )

    with (
        swallowing(table, "INSERT" if table == LOG else operation),
        pytest.raises(InternalError, match=f"{operation.lower()} in {BINDINGS}: . rows of 3 were written"),
    ):
        store.apply([(None, decision)], by=USER)

    assert everything(store) == before
    assert not store.apply([(None, decision)], by=USER)[0].lost  # as soon as nothing is in the way
    assert store.current_version() == before["version"] + 5


def test_what_was_committed_before_stays(store: DjangoStore) -> None:
    first = Decision(changes=tuple(Put(template(f"c{number}"), None) for number in range(600)))
    second = Decision(changes=(Put(binding("lost", "member1"), None),))

    with swallowing(BINDINGS, "INSERT"), pytest.raises(InternalError, match="0 rows of 1 were written"):
        store.apply([(None, first), (None, second)], by=USER)

    assert (len(store.documents("ConfigMap")), store.current_version()) == (600, 600)
    assert write(store, *second.changes).versions == (601,)

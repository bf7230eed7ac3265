"""`manage.py verify` finds every derived value that its document does not give, and `--repair` writes it again."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection

from apps.objects import store as stores
from apps.objects.store import DjangoStore
from apps.objects.tally_checks import COUNTED
from apps.objects.verification import verify
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.binding import GracefulEvictionTask, ReplicaRequirements, TargetCluster
from controlplane.kinds.cluster import Taint
from controlplane.kinds.rows import BindingReadiness
from tests.builders import objects, templates
from tests.builders.bare import binding, cluster, template
from tests.stores.grounds import create

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def filled() -> Iterator[DjangoStore]:
    """The store of the process, with a cluster, a template, and a binding that uses a quota."""
    store = stores.store()
    web = binding("web", "a", "b").with_spec(
        replica_requirements=ReplicaRequirements(resource_request={"cpu": "500m"}),
        clusters=(TargetCluster("a", 2), TargetCluster("b", 1)),
    )
    create(store, cluster("a").with_spec(taints=(Taint("full", "NoSchedule"),)), template("web"), web)
    run("DELETE FROM objects_due")
    return store


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def rows(query: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


WRONG = {
    "a column": ("UPDATE resources_binding SET scheduled = 'True'", "scheduled"),
    "index keys": ("UPDATE resources_binding SET keys = '{placed=z}'", "keys"),
    "labels": ("UPDATE objects_object SET labels = '{a=b,a}'", "labels"),
    "a generation": ("UPDATE clusters_cluster SET generation = 77", "generation"),
    "a version": ("UPDATE resources_binding SET resource_version = 1", "resource_version"),
    "a missing target": ("DELETE FROM resources_targetcluster WHERE cluster = 'b'", "rows"),
    "other replicas": ("UPDATE resources_targetcluster SET replicas = 9 WHERE cluster = 'b'", "rows"),
    "rows without an owner": ("INSERT INTO resources_targetcluster (binding, cluster, replicas) "
                              "VALUES ('work.karmada.io/ResourceBinding:shop/gone', 'a', 1)", "rows"),
    "a use of quotas": ("UPDATE objects_quotause SET amount = amount + 1", "cpu"),
    "a missing use": ("DELETE FROM objects_quotause", "cpu"),
    "a use of nothing": ("INSERT INTO objects_quotause (namespace, resource, amount) VALUES ('none', 'cpu', 3)", "cpu"),
    "a tally of bindings": ("UPDATE objects_tally SET number = 9 WHERE counted = 'Binding'", "number"),
    "a missing tally": ("DELETE FROM objects_tally WHERE counted = 'TargetCluster'", "number"),
    "a tally of nothing": ("INSERT INTO objects_tally (counted, cluster, state, reason, number) "
                           "VALUES ('Eviction', 'gone', 'Queued', 'x', 3)", "number"),
    "a due row of no controller": (
        "INSERT INTO objects_due (controller, kind, namespace, name, hash, due_at, seq, cursor) "
        "VALUES ('former', 'v1/ConfigMap', 'shop', 'x', 1, now(), 1, '')",
        "rows",
    ),
    "a due row in the wrong shard": (
        "INSERT INTO objects_due (controller, kind, namespace, name, hash, due_at, seq, cursor) "
        "VALUES ('works', 'v1/ConfigMap', 'shop', 'x', 1, now(), 1, '')",
        "hash",
    ),
}  # fmt: skip


def test_what_is_written_as_usual_has_no_difference(filled: DjangoStore) -> None:
    out = StringIO()
    call_command("verify", stdout=out)

    assert "all derived values" in out.getvalue()


@pytest.mark.parametrize("case", WRONG)
def test_a_difference_is_named_and_repaired_and_no_document_changes(filled: DjangoStore, case: str) -> None:
    statement, column = WRONG[case]
    documents = "SELECT doc FROM resources_binding UNION ALL SELECT doc FROM objects_object ORDER BY 1"
    before, version = rows(documents), filled.current_version()
    run(statement)

    with pytest.raises(CommandError, match="--repair"):
        call_command("verify", stdout=StringIO())
    found = verify(filled, repair=True)

    assert column in {one.column for one in found}
    assert verify(filled) == []
    assert (rows(documents), filled.current_version()) == (before, version)


def test_a_repaired_object_is_due_for_the_controllers_that_watch_it(filled: DjangoStore) -> None:
    run("UPDATE resources_binding SET keys = '{}'")

    verify(filled, repair=True)

    due = {controller for (controller,) in rows("SELECT controller FROM objects_due")}
    assert {"scheduler", "works"} <= due


def test_a_document_that_cannot_be_read_is_reported_and_stays(filled: DjangoStore) -> None:
    run("UPDATE resources_binding SET doc = '{\"spec\": 3}'")

    with pytest.raises(CommandError, match="1 cannot be repaired"):
        call_command("verify", "--repair", stdout=StringIO())

    assert rows("SELECT doc FROM resources_binding") == [('{"spec": 3}',)]


def test_a_secret_whose_key_is_lost_hides_no_wrong_use_of_quotas_in_its_namespace(
    filled: DjangoStore, settings: Any
) -> None:
    create(filled, templates.secret("login", {"password": "b2xk"}, namespace="shop"))
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    run("UPDATE objects_quotause SET amount = amount + 1")

    found = verify(filled, repair=True)

    assert {one.column for one in found} == {"doc", "cpu"}
    assert {one.column for one in verify(filled)} == {"doc"}


def test_every_tally_is_compared_and_counted_again(filled: DjangoStore) -> None:
    leaving = binding("db", "a").with_spec(
        graceful_eviction_tasks=(GracefulEvictionTask("b", purge_mode="Gracefully"),)
    )
    create(filled, leaving)
    row = BindingReadiness(str(leaving.ref), "shop", "db", verdict="Moves", named="Pinned", clusters=("a", "b"))
    stays = objects.eviction("web", "a", due_at=None)
    saved = (row, objects.eviction("db"), stays)
    filled.apply([(None, Decision(changes=tuple(map(Save, saved))))], by=Actor("test"))
    tallies = "SELECT counted, cluster, state, reason, number FROM objects_tally ORDER BY 1, 2, 3, 4"
    right = rows(tallies)
    assert {counted for counted, *_ in right} == COUNTED.keys()
    assert verify(filled) == []

    run("UPDATE objects_tally SET number = number + 1")

    assert len(verify(filled, repair=True)) == len(right)
    assert (rows(tallies), verify(filled)) == (right, [])

"""FleetStatus over HTTP: its figures are those of the database, at a cost that does not rise with the bindings."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.test import Client
from msgspec.structs import replace

from apps.api.expiries import EXPIRIES
from apps.api.models import Token
from apps.failover.models import Eviction, GracefulEvictionTask
from apps.objects.configuration import configuration
from apps.objects.models import Tally
from apps.objects.store import store
from apps.resources.models import Binding, TargetCluster
from controlplane.engine.decision import Decision, Delete, Drop, Save
from controlplane.engine.state import Actor
from controlplane.insight.situation import Expiry
from controlplane.kinds.cluster import SecretReference
from tests.apps.pages import change, in_queue, stored
from tests.apps.statements import statements
from tests.builders import templates
from tests.builders.bare import START, binding, cluster
from tests.builders.objects import eviction, leaving

FLEET = "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def status(client: Client) -> Any:
    answer = client.get(FLEET, HTTP_ACCEPT="application/json")
    assert answer.status_code == 200, answer.content
    return answer.json()["status"]


def tallies() -> dict[tuple[str, str, str, str], int]:
    rows = Tally.objects.values_list("counted", "cluster", "state", "reason", "number")
    return {(counted, name, state, reason): number for counted, name, state, reason, number in rows}


def counted() -> dict[tuple[str, str, str, str], int]:
    found = Counter[tuple[str, str, str, str]]()
    for row in Eviction.objects.all():
        stays = row.due_at is None and row.ended_at is None
        found["Eviction", row.cluster, "Stays" if stays else row.state, row.reason] += 1
    for row in TargetCluster.objects.all():
        found["TargetCluster", row.cluster, "", ""] += 1
    for row in GracefulEvictionTask.objects.all():
        found["GracefulEvictionTask", row.from_cluster, row.purge_mode, row.reason] += 1
    for row in Binding.objects.all():
        found["Binding", "", row.kind, row.namespace] += 1
    return dict(found)


def save(*rows: Any) -> None:
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))


def test_the_latest_token_of_an_agent_decides_when_its_login_expires(root: Client) -> None:
    agents = stored(cluster("member1"), cluster("member2"), cluster("member3"))
    user, first, last = User.objects.create(username="agent"), START, START + timedelta(days=7)
    for number, (uid, at) in enumerate(
        [
            (agents[0].metadata.uid, last),
            (agents[0].metadata.uid, first),
            (agents[1].metadata.uid, None),
            ("gone", last),
        ]
    ):
        Token.objects.create(user=user, name=f"t{number}", digest=f"d{number}", cluster_uid=uid, expires=at)
    Token.objects.create(user=user, name="of a person", digest="p", expires=first)

    assert EXPIRIES.read(agents) == [Expiry("member1", "token of the agent", last)]


def test_credentials_whose_encryption_key_is_lost_hide_nothing_of_the_fleet(clerk: Client, settings: Any) -> None:
    credentials = templates.secret("member1", {"token": "dG9rZW4="}, namespace="karmada-cluster")
    reference = SecretReference("karmada-cluster", "member1")
    stored(credentials, cluster("member1").with_spec(secret_ref=reference), cluster("member2"))
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()

    assert {one["name"] for one in status(clerk)["members"]} == {"member1", "member2"}


def test_tallies_are_the_counts_of_their_tables_after_every_write(root: Client) -> None:
    _, first = stored(cluster("member1"), binding("web", "member1", "member2"))
    keys = in_queue("api", "db")
    assert tallies() == counted()
    rows = {name: store().rows(type_of(), "key", [key])[key][0] for name, key in keys.items()}

    save(replace(rows["db"], state="Held", reason="NoRefuge"), replace(rows["api"], due_at=None))
    assert tallies() == counted()
    task = replace(leaving("member1"), reason="Drain")
    change(first, first.with_spec(graceful_eviction_tasks=(task,), clusters=first.spec.clusters[1:]))
    assert tallies() == counted()
    store().apply([(None, Decision(changes=(Drop(rows["db"]),)))], by=Actor("test"))
    made = stored(*(binding("late", "member1", namespace=name) for name in ("bank", "shop")))
    assert tallies() == counted()
    assert tallies()["Binding", "", made[0].ref.kind, "bank"] == 1
    store().apply([(None, Decision(changes=tuple(map(Delete, made))))], by=Actor("test"))

    assert tallies() == counted()
    assert tallies()["GracefulEvictionTask", "member1", "Gracefully", "Drain"] == 1
    assert ("Eviction", "member1", "Held", "NoRefuge") not in tallies()
    assert ("Binding", "", made[0].ref.kind, "bank") not in tallies()


def type_of() -> Any:
    return type(eviction("any", "member1"))


def test_the_figures_are_those_of_the_database(clerk: Client) -> None:
    stored(cluster("member1"), cluster("member2"))
    in_queue("a", "b")
    in_queue("c", state="Held")

    found = status(clerk)

    assert (found["clusters"], found["queue"]["queued"], found["queue"]["held"]) == (2, 2, 1)
    assert {one["name"]: one.get("workloads", 0) for one in found["members"]} == {"member1": 3, "member2": 0}


def test_kubectl_gets_a_table_of_one_row(clerk: Client) -> None:
    stored(cluster("member1"))

    table = clerk.get(FLEET.removesuffix("/fleet"), HTTP_ACCEPT=TABLE).json()

    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Ready", "Queued"]
    assert [row["cells"][0] for row in table["rows"]] == ["fleet"]


def test_the_number_of_queries_does_not_depend_on_clusters_bindings_or_evictions(root: Client) -> None:
    stored(cluster("member1"))
    in_queue("web")
    few = queries(root)
    stored(*(cluster(f"other{number}") for number in range(10)))
    in_queue(*(f"web{number}" for number in range(60)))

    assert queries(root) == few
    assert status(root)["queue"]["queued"] == 61


def queries(client: Client) -> int:
    """Return the number of queries of a request whose process has read the settings just before."""
    status(client)
    configuration().settings(reread=True)
    with statements() as found:
        status(client)
    return len(found)


def test_callers_without_a_login_get_nothing(db: None) -> None:
    assert Client().get(FLEET, HTTP_ACCEPT="application/json").status_code == 401


def test_the_time_of_a_task_decides_whether_it_is_stuck(root: Client) -> None:
    (made,) = stored(binding("web", "member2"))
    task = replace(leaving("member1"), creation_timestamp=START)
    change(made, made.with_spec(graceful_eviction_tasks=(task,)))

    assert status(root)["queue"]["stuck"] == 1


def test_copies_that_stay_until_a_person_ends_it_are_not_stuck(root: Client) -> None:
    """Purge mode Never. The metric lifeboat_evictions_stuck leaves them out as well."""
    tasks = (
        replace(leaving("member1", "Never"), creation_timestamp=START, suppress_deletion=True),
        replace(leaving("member3"), creation_timestamp=START),
    )
    stored(
        *(cluster(name) for name in ("member1", "member2", "member3")),
        binding("web", "member2").with_spec(graceful_eviction_tasks=tasks),
    )

    queue = status(root)["queue"]

    assert (queue["moving"], queue["stuck"]) == (1, 1)

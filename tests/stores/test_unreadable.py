"""What cannot be read, because its key is lost, costs only the objects that depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection

from apps.members.core import wanted
from apps.members.database import DatabaseHost
from apps.members.pump import Pump
from apps.objects.configuration import configuration
from apps.objects.store import DjangoStore
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.clusters.questions import Answer, Question
from controlplane.controllers.policies import Policies
from controlplane.controllers.probes import Probes
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Put
from controlplane.engine.failure import Failure
from controlplane.engine.run import Report, World, run_batch
from controlplane.engine.state import State
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import MISCONFIGURED, Cluster, SecretReference
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.propagation import matching
from controlplane.settings import Settings
from tests.builders import objects
from tests.builders.bare import START, binding, cluster
from tests.builders.objects import policy
from tests.stores.grounds import PLACER, Placer, create

pytestmark = pytest.mark.django_db(transaction=True)


class Placed(Placer):
    """Places every binding."""

    def decide(self, snapshot: Binding, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        return Decision(changes=(Put(snapshot.with_spec(clusters=(TargetCluster("member2", 1),)), snapshot),))


class Careful(Placed):
    """The same, and looks at the Secret of its name first."""

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        state.get([Ref("Secret", "default", ref.name) for ref in refs])
        return super().load(state, refs)


class Sweeper(Careful):
    """The same, of all that a cluster concerns at once."""

    decides_in_fan_out = True


class Counting(Careful):
    """Looks at the Secret `bad` to find out what a cluster concerns."""

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        state.get([Ref("Secret", "default", "bad")])
        return super().expand(state, origin, after=after, limit=limit)


@contextmanager
def lost_key(settings: Any) -> Iterator[None]:
    """What is stored within this is encrypted with a key that no process has later."""
    kept = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()
    yield
    settings.ENCRYPTION_KEYS = kept


def secret(name: str) -> Template:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", generation=1, creation_timestamp=START)
    return Template("v1", "Secret", meta, {"data": {"token": "eA=="}})


def store_of(controller: Controller, settings: Any) -> DjangoStore:
    """A store with the Secrets a, bad and z, of which one cannot be read."""
    store = DjangoStore(controllers=[controller])
    create(store, secret("a"), secret("z"))
    with lost_key(settings):
        create(store, secret("bad"))
    return store


def placed(store: DjangoStore) -> list[str]:
    return [one.metadata.name for one in store.list(RESOURCE_BINDING) if one.spec.target("member2")]


def run(controller: Controller, store: DjangoStore) -> Report:
    """Run a batch. Each failure is also reported to the world around, which logs and counts it."""
    reported: list[Failure] = []
    report = run_batch(controller, store, Settings(), world=World(report=reported.append))
    assert tuple(reported) == report.failures
    return report


def claimed(store: DjangoStore) -> list[str]:
    claims = store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=0).claims
    return [claim.ref.name for claim in claims]


def test_the_others_are_decided_and_it_is_looked_at_again_later(settings: Any) -> None:
    store = store_of(controller := Careful(), settings)
    create(store, *map(binding, ("a", "bad", "z")))

    report = run(controller, store)

    assert placed(store) == ["a", "z"]
    assert [(one.ref.name, one.error.partition(":")[0]) for one in report.failures] == [("bad", "SealError")]
    assert claimed(store) == []
    due = store.next_due(["placer"])
    assert due is not None
    assert due > store.now()


def test_a_document_that_another_version_wrote_costs_no_other_object_its_decision() -> None:
    """A later release was started for a while, or a person changed the row."""
    store = DjangoStore(controllers=[controller := Placed()])
    create(store, *map(binding, ("a", "bad", "z")))
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE resources_binding SET doc = jsonb_set(doc::jsonb, '{spec}', '[]')::text WHERE name = 'bad'"
        )

    report = run(controller, store)

    refs = [Ref(RESOURCE_BINDING, "shop", name) for name in ("a", "z")]
    assert [one.spec.target("member2") is not None for one in store.get(refs).values()] == [True, True]
    assert [one.ref.name for one in report.failures] == ["bad"]
    assert "ResourceBinding" in report.failures[0].error
    assert claimed(store) == []


def test_a_fan_out_decides_about_the_others(settings: Any) -> None:
    store = store_of(controller := Sweeper(), settings)
    create(store, *(binding(name, "member1") for name in ("a", "bad", "z")))
    claims = store.claim("placer", shard=0, shards=1, limit=9, lease_seconds=60).claims
    store.apply([(one, Decision()) for one in claims], by=PLACER)
    create(store, cluster("member1"))

    run(controller, store)

    assert placed(store) == ["a", "z"]
    assert [one.ref.name for one in run(controller, store).failures] == ["bad"]


def test_a_fan_out_that_cannot_be_read_keeps_the_others_from_nothing(settings: Any) -> None:
    store = store_of(controller := Counting(), settings)
    create(store, cluster("member1"), *map(binding, ("a", "z")))

    report = run(controller, store)

    assert placed(store) == ["a", "z"]
    assert report.failures == ()
    assert claimed(store) == []


@pytest.mark.parametrize("claims", [False, True], ids=["selected", "claimed"])
def test_a_policy_reaches_all_other_secrets(settings: Any, claims: bool) -> None:
    """Its fan-out was put off as a whole and for ever: no Secret got the policy, or was released by it."""
    found = DjangoStore(controllers=[policies := Policies()])
    everywhere = policy("all", ResourceSelector("v1", "Secret"), namespace="")
    labels, annotations = matching.claim(everywhere) if claims else ({}, {})
    secrets = {name: secret(name).with_meta(labels=labels, annotations=annotations) for name in ("a", "bad", "z")}
    create(found, secrets["a"], secrets["z"])
    with lost_key(settings):
        create(found, secrets["bad"])
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_due")
    if claims:
        found.mark("policies", [everywhere.ref])
    else:
        create(found, everywhere)

    run(policies, found)

    assert {ref.name for ref in waiting("policies")} == {"a", "bad", "z"}


def test_a_member_whose_credentials_cannot_be_read_keeps_no_other_from_being_observed_and_watched(
    settings: Any, tmp_path: Path
) -> None:
    settings.LIFEBOAT_HOME = tmp_path
    store = store_of(controller := Probes(), settings)
    members = {"member1": "a", "member2": "bad", "member3": "z"}
    create(store, *(member(name, of) for name, of in members.items()))
    create(store, *(objects.work(f"{name}-work", name) for name in members))
    with ThreadPoolExecutor(1) as executor:
        pump = Pump(controller, DatabaseHost(store, configuration()), unasked, executor)

        asked, _ = pump.claim()
        for one in asked:
            one.answer = Answer(200)
        pump.flush(asked)

        observed = store.rows(Observation, "key", members)
        assert {name: row.access_reason for name, (row,) in observed.items()} == {
            "member1": "",
            "member2": MISCONFIGURED,
            "member3": "",
        }
        assert "Secret default/bad" in observed["member2"][0].access_lost
        assert pump.claim()[0] == []
    assert {ref.name for ref in waiting("probes")} == set(members), "each is looked at again later"
    assert {cluster for cluster, _, _ in wanted(store)} == {"member1", "member3"}


def test_a_cluster_that_another_version_wrote_keeps_no_other_from_being_watched() -> None:
    """It would end the members process, again after each start: no member would be probed or written to any more."""
    store, names = DjangoStore(), ("member1", "member2", "member3")
    create(store, *(member(name, "a") for name in names), *(objects.work(f"{name}-work", name) for name in names))
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {object_table(CLUSTER).name} SET doc = jsonb_set(doc::jsonb, '{{spec}}', '[]')::text"
            " WHERE name = 'member2'"
        )

    assert {cluster for cluster, _, _ in wanted(store)} == {"member1", "member3"}


def waiting(controller: str) -> list[Ref]:
    """Return what a controller looks at now or later."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT kind, namespace, name FROM objects_due WHERE controller = %s", [controller])
        return [Ref(*row) for row in cursor.fetchall()]


def member(name: str, secret: str) -> Cluster:
    reached: Cluster = cluster(name).with_spec(
        api_endpoint=f"http://{name}", secret_ref=SecretReference("default", secret)
    )
    return reached.with_status(conditions=(Condition("Ready", "True", ""),))


async def unasked(question: Question) -> Answer:
    raise AssertionError("no member is asked")

"""The members process against simulated members over HTTP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.db import connection, transaction
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.probes import Probes
from controlplane.engine.decision import Decision, Put, deleting
from controlplane.engine.state import Actor
from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, Stack, deployment, policy, stack
from tests.processes import until

pytestmark = pytest.mark.slow

BOTH = ("member1", "member2")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, kept_database: None, empty_redis: str) -> Iterator[Stack]:
    """Two members, joined, and one workload policy for both; each test has workloads of its own."""
    with stack(tmp_path_factory.mktemp("members"), empty_redis, *BOTH) as running:
        running.up()
        running.join(*BOTH)
        running.create(LEAVE_WHERE_NOT_READY)
        running.create(policy(*BOTH))
        yield running


@pytest.fixture
def two(shared: Stack) -> Iterator[Stack]:
    """The stack that the tests here share. What a test did to its members is mended."""
    yield shared
    assert shared.fleet is not None
    for name in BOTH:
        shared.fleet.set_fault(name, "none")
        until(lambda name=name: shared.is_usable(name) and not access_lost(shared, name), within=WITHIN)


def path(name: str) -> str:
    return f"/apis/apps/v1/namespaces/default/deployments/{name}"


def access_lost(running: Stack, name: str) -> bool:
    said = condition(running.cluster(name).status.conditions, "AccessLost")
    return said is not None and said.status == "True"


def works(running: Stack, name: str) -> list[Any]:
    """Return the Works of a Deployment."""
    return [one for one in running.works() if one.manifest["metadata"]["name"] == name]


def test_a_workload_runs_on_every_member_and_its_health_comes_back(two: Stack) -> None:
    two.create(deployment("web", replicas=2))

    until(lambda: two.healthy("web") == set(BOTH), within=WITHIN)

    held = two.member("member1", "GET", path("web"))
    assert held["status"]["readyReplicas"] == 2
    assert held["metadata"]["labels"]["karmada.io/managed"] == "true"


def test_an_object_deleted_on_the_member_comes_back_also_without_a_watch(two: Stack) -> None:
    two.create(deployment("back"))
    until(lambda: two.healthy("back") == set(BOTH), within=WITHIN)
    before = two.member("member1", "GET", path("back"))["metadata"]["uid"]

    two.member("member1", "DELETE", path("back"))

    until(
        lambda: (held := two.member("member1", "GET", path("back"))) and held["metadata"]["uid"] != before,
        within=WITHIN,
    )
    until(lambda: two.healthy("back") == set(BOTH), within=WITHIN)

    assert two.watching is not None
    two.processes.end(two.watching, by=signal.SIGKILL)
    two.member("member1", "DELETE", path("back"))
    two.watching = two.processes.members()

    until(lambda: two.member("member1", "GET", path("back")), within=WITHIN)


def test_a_foreign_object_is_reported_and_left_alone(two: Stack) -> None:
    theirs = yaml.safe_load(deployment("theirs", replicas=7))
    two.member("member1", "POST", "/apis/apps/v1/namespaces/default/deployments", theirs)

    two.create(deployment("theirs"))

    def refused() -> str:
        found = [one for one in works(two, "theirs") if one.metadata.namespace == "karmada-es-member1"]
        said = condition(found[0].status.conditions, "Applied") if found else None
        return said.message if said is not None and said.status == "False" else ""

    assert "not managed by Lifeboat" in until(refused, within=WITHIN)
    held = two.member("member1", "GET", path("theirs"))
    assert held["spec"]["replicas"] == 7
    assert "karmada.io/managed" not in held["metadata"].get("labels", {})


def test_a_deleted_workload_is_gone_from_the_members(two: Stack) -> None:
    two.create(deployment("gone"))
    until(lambda: two.healthy("gone") == set(BOTH), within=WITHIN)

    template = two.get(Ref("apps/Deployment", "default", "gone"))
    two.store.apply([(None, Decision(changes=(deleting(template, now=two.store.now()),)))], by=Actor("test"))

    until(lambda: not any(two.member(name, "GET", path("gone")) for name in BOTH), within=WITHIN)
    until(lambda: not works(two, "gone"), within=WITHIN)


def test_a_member_that_refuses_us_is_not_a_lost_cluster(two: Stack) -> None:
    assert two.fleet is not None
    two.create(deployment("refused"))
    until(lambda: two.healthy("refused") == set(BOTH), within=WITHIN)
    since = two.store.current_version()

    two.fleet.set_fault("member1", "unauthorized")

    until(lambda: access_lost(two, "member1"), within=WITHIN)
    asked = len(_probes(two, "member1"))
    until(lambda: len(_probes(two, "member1")) > asked + 8, within=WITHIN)  # four seconds, threshold and window twice

    cluster = two.cluster("member1")
    assert cluster.ready == "True"
    assert not cluster.has_taint("NoExecute")
    assert set(two.placed("refused")) == set(BOTH)
    assert not [one for one in two.changes(since) if b'"gracefulEvictionTasks":[{' in one.document]


def test_a_member_is_asked_more_often_as_soon_as_that_is_wanted(two: Stack) -> None:
    """Not only after the longer time that was wanted before."""

    def far_off() -> bool:
        due = two.store.next_due({Probes.name})
        return due is not None and due > two.store.now() + timedelta(seconds=60)

    head = "apiVersion: failover.lifeboat.io/v1alpha1, kind: FailoverConfiguration, metadata: {name: default}"
    two.create(f"{{{head}, spec: {{clusterStatusUpdateFrequency: 600}}}}")
    until(far_off, within=WITHIN)
    asked = len(_probes(two, "member1"))

    live = two.get(Ref(kinds.FAILOVER_CONFIGURATION, "", "default"))
    usual = replace(live, spec={"clusterStatusUpdateFrequency": 0.5}, metadata=replace(live.metadata, generation=2))
    two.store.apply([(None, Decision(changes=(Put(usual, live),)))], by=Actor("test"))

    until(lambda: len(_probes(two, "member1")) > asked + 2, within=WITHIN)


def test_members_are_probed_also_after_the_clock_of_the_database_was_put_back(two: Stack) -> None:
    """What is stored is an hour later than the clock then; nothing would be due until the hour is over."""
    with connection.cursor() as cursor, transaction.atomic():
        cursor.execute("SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE")
        by = "interval '1 hour'"
        cursor.execute(f"UPDATE objects_due SET due_at = due_at + {by}, lease_until = lease_until + {by}")
        cursor.execute(f"UPDATE objects_lease SET until = until + {by}")
    asked = {name: len(_probes(two, name)) for name in BOTH}

    two.create(deployment("put-back"))

    until(lambda: all(len(_probes(two, name)) > asked[name] + 4 for name in BOTH), within=WITHIN)
    until(lambda: two.healthy("put-back") == set(BOTH), within=WITHIN)


@pytest.mark.django_db(transaction=True)
def test_a_silent_member_delays_no_other(tmp_path: Path, redis_url: str, redis_client: object) -> None:
    """Half a period is late: who waits for a black hole's answer waits a whole one, whenever it does not come.

    A machine that stands still shows once, so it is enough that a number of questions in a row came in time.
    """
    frequency, in_a_row = 2.0, 4
    with stack(tmp_path, redis_url, "member1", "member2", cluster_status_update_frequency=str(frequency)) as running:
        assert running.fleet is not None
        running.up()
        running.join("member1", "member2")
        running.create(LEAVE_WHERE_NOT_READY)
        running.create(policy("member1", "member2"))
        running.create("\n---\n".join(deployment(f"web-{number}") for number in range(20)))
        until(lambda: all("member2" in running.healthy(f"web-{number}") for number in range(20)), within=WITHIN)

        running.fleet.set_fault("member1", "blackhole")
        before = len(_probes(running, "member2"))
        until(lambda: running.cluster("member1").ready != "True", within=WITHIN)
        running.create(deployment("late"))
        until(lambda: "member2" in running.healthy("late"), within=WITHIN)

        def gaps() -> list[float]:
            asked = _probes(running, "member2")[before:]
            return [(later - sooner).total_seconds() for sooner, later in pairwise(asked)]

        def in_time() -> bool:
            found = gaps()
            runs = (found[start : start + in_a_row] for start in range(len(found) - in_a_row + 1))
            return any(max(run) < 1.5 * frequency for run in runs)

        until(in_time, within=WITHIN)


def _probes(running: Stack, member: str) -> list[datetime]:
    """Return when a member was asked whether it is ready."""
    assert running.fleet is not None
    found = [one["at"] for one in running.fleet.requests(member) if one["path"].startswith("/readyz")]
    return [datetime.fromisoformat(at) for at in found]

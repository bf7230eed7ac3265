"""The members process against simulated members over HTTP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.probes import Probes
from controlplane.engine.decision import Decision, Put, deleting
from controlplane.engine.state import Actor
from tests.apps.stack import LEAVE_WHERE_NOT_READY, WITHIN, Stack, deployment, policy, stack
from tests.processes import until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

WEB = "/apis/apps/v1/namespaces/default/deployments/web"


@pytest.fixture
def two(tmp_path: Path, redis_url: str, redis_client: object) -> Iterator[Stack]:
    """Two members, joined, and one workload policy for both."""
    with stack(tmp_path, redis_url, "member1", "member2") as running:
        running.up()
        running.join("member1", "member2")
        running.create(LEAVE_WHERE_NOT_READY)
        running.create(policy("member1", "member2"))
        yield running


def test_a_workload_runs_on_every_member_and_its_health_comes_back(two: Stack) -> None:
    two.create(deployment("web", replicas=2))

    until(lambda: two.healthy("web") == {"member1", "member2"}, within=WITHIN)

    held = two.member("member1", "GET", WEB)
    assert held["status"]["readyReplicas"] == 2
    assert held["metadata"]["labels"]["karmada.io/managed"] == "true"


def test_an_object_deleted_on_the_member_comes_back_also_where_nobody_watched(two: Stack) -> None:
    two.create(deployment("web"))
    until(lambda: two.healthy("web") == {"member1", "member2"}, within=WITHIN)
    before = two.member("member1", "GET", WEB)["metadata"]["uid"]

    two.member("member1", "DELETE", WEB)

    after = until(lambda: (held := two.member("member1", "GET", WEB)) and held["metadata"]["uid"], within=WITHIN)
    assert after != before or until(
        lambda: (held := two.member("member1", "GET", WEB)) and held["metadata"]["uid"] != before, within=WITHIN
    )
    until(lambda: two.healthy("web") == {"member1", "member2"}, within=WITHIN)

    assert two.watching is not None
    two.processes.end(two.watching, by=signal.SIGKILL)
    two.member("member1", "DELETE", WEB)
    two.processes.members()

    until(lambda: two.member("member1", "GET", WEB), within=WITHIN)


def test_an_object_somebody_else_made_is_reported_and_left_alone(two: Stack) -> None:
    theirs = yaml.safe_load(deployment("web", replicas=7))
    two.member("member1", "POST", "/apis/apps/v1/namespaces/default/deployments", theirs)

    two.create(deployment("web"))

    def refused() -> str:
        works = [one for one in two.works() if one.metadata.namespace == "karmada-es-member1"]
        said = condition(works[0].status.conditions, "Applied") if works else None
        return said.message if said is not None and said.status == "False" else ""

    assert "not managed by Lifeboat" in until(refused, within=WITHIN)
    held = two.member("member1", "GET", WEB)
    assert held["spec"]["replicas"] == 7
    assert "karmada.io/managed" not in held["metadata"].get("labels", {})


def test_a_deleted_workload_is_gone_from_the_members(two: Stack) -> None:
    two.create(deployment("web"))
    until(lambda: two.healthy("web") == {"member1", "member2"}, within=WITHIN)

    template = two.get(Ref("apps/Deployment", "default", "web"))
    two.store.apply([(None, Decision(changes=(deleting(template, now=two.store.now()),)))], by=Actor("test"))

    until(lambda: two.member("member1", "GET", WEB) is None, within=WITHIN)
    until(lambda: two.member("member2", "GET", WEB) is None and not two.works(), within=WITHIN)


def test_a_member_that_refuses_us_is_not_a_lost_cluster(two: Stack) -> None:
    assert two.fleet is not None
    two.create(deployment("web"))
    until(lambda: two.healthy("web") == {"member1", "member2"}, within=WITHIN)
    since = two.store.current_version()

    two.fleet.set_fault("member1", "unauthorized")

    def lost() -> bool:
        said = condition(two.cluster("member1").status.conditions, "AccessLost")
        return said is not None and said.status == "True"

    until(lost, within=WITHIN)
    asked = len(_probes(two, "member1"))
    until(lambda: len(_probes(two, "member1")) > asked + 8, within=WITHIN)  # four seconds, threshold and window twice

    cluster = two.cluster("member1")
    assert cluster.ready == "True"
    assert not cluster.has_taint("NoExecute")
    assert set(two.placed("web")) == {"member1", "member2"}
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


def test_a_silent_member_delays_nobody(tmp_path: Path, redis_url: str, redis_client: object) -> None:
    """Half a period is late: who waits for a black hole's answer waits a whole one, whenever it does not come.

    A machine that stands still shows once, so it is enough that a number of questions in a row came in time.
    """
    frequency, in_a_row = 2.0, 6
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

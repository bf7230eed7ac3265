"""Debounce, lost access, heartbeats, tiers and blindness."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.clusters.eviction_tier import BLIND, NORMAL, SECONDARY, STOPPED, FleetHealth, fleet_health, tier
from controlplane.clusters.health import Seen, debounce, heartbeat, observe, seen
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.engine import run
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Collected, Observation
from controlplane.settings import Settings
from tests.builders.objects import START, cluster, no_execute

SETTINGS = Settings()
UP, DOWN, UNKNOWN = Seen("True", "ClusterReady"), Seen("False", "ClusterNotReachable"), Seen("Unknown", "Lost")


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def probed(*probes: tuple[float, Seen]) -> Observation:
    row = Observation("member1")
    for seconds, what in probes:
        row = observe(row, what, SETTINGS, now=at(seconds))
    return row


def published(member: Cluster, row: Observation | None, seconds: float) -> str:
    ready = condition(debounce(member, row, SETTINGS, now=at(seconds)).conditions, "Ready")
    return ready.status if ready is not None else ""


@pytest.mark.parametrize(
    ("code", "access", "status"),
    [(200, "", "True"), (0, "", "False"), (500, "", "False"), (404, "", "False"), (401, "AccessRefused", "")],
)
def test_what_a_probe_means(code: int, access: str, status: str) -> None:
    assert seen(code, access=access).status == status


def test_the_first_observation_is_published_at_once() -> None:
    assert published(cluster("member1", ready="", established=False), probed((0, DOWN)), 0) == "False"


@pytest.mark.parametrize(("seconds", "status"), [(29.999, "True"), (30, "False"), (31, "False")])
def test_a_failing_cluster_is_published_exactly_when_the_threshold_has_passed(seconds: float, status: str) -> None:
    row = probed((-10, UP), (0, DOWN), (10, DOWN), (20, DOWN))

    assert published(cluster("member1"), row, seconds) == status
    if seconds < 30:
        assert debounce(cluster("member1"), row, SETTINGS, now=at(seconds)).wake_at == at(30)


@pytest.mark.parametrize(("seconds", "status"), [(29.999, "False"), (30, "True")])
def test_a_recovering_cluster_is_published_exactly_when_the_threshold_has_passed(seconds: float, status: str) -> None:
    row = probed((-10, DOWN), (0, UP), (10, UP), (20, UP))

    assert published(cluster("member1", ready="False"), row, seconds) == status


@pytest.mark.parametrize(("before", "after"), [(UP, DOWN), (DOWN, UP)])
def test_a_threshold_that_runs_while_the_clock_is_put_back_begins_again(before: Seen, after: Seen) -> None:
    """What was observed before is in the future then. One bug: nothing was published until that hour was over."""
    row = probed((3590, before), (3600, after), (0, after), (10, after), (20, after))

    assert [published(cluster("member1", ready=before.status), row, seconds) for seconds in (29, 30)] == [
        before.status,
        after.status,
    ]


def test_one_failed_probe_changes_nothing() -> None:
    row = probed((0, UP), (10, DOWN), (20, UP))

    assert published(cluster("member1"), row, 60) == "True"


def test_one_failed_probe_and_then_silence_changes_nothing() -> None:
    assert published(cluster("member1"), probed((0, UP), (10, DOWN)), 3600) == "True"


def test_a_cluster_that_flaps_faster_than_the_threshold_is_never_published() -> None:
    row, statuses = Observation("member1"), set()
    for step in range(0, 3600, 10):
        row = observe(row, DOWN if step // 20 % 2 else UP, SETTINGS, now=at(step))
        statuses.add(published(cluster("member1"), row, step))

    assert statuses == {"True"}


@pytest.mark.parametrize(("seconds", "status"), [(605, "True"), (609.999, "True"), (610, "False")])
def test_unobserved_time_counts_for_nothing(seconds: float, status: str) -> None:
    """Down since 0 s, no process looks from 5 s (which counts until 25 s) to 605 s: 580 s are taken out."""
    row = probed((-10, UP), (0, DOWN), (5, DOWN), (605, DOWN))

    assert row.unobserved_seconds == 580
    assert published(cluster("member1"), row, seconds) == status


def test_false_and_unknown_change_places_at_once() -> None:
    row = probed((0, DOWN), (10, UNKNOWN))

    assert published(cluster("member1", ready="False"), row, 10) == "Unknown"


def test_unknown_after_false_does_not_restart_the_debounce() -> None:
    row = probed((-10, UP), (0, DOWN), (10, UNKNOWN), (20, DOWN))

    assert published(cluster("member1"), row, 30) == "False"


@pytest.mark.parametrize("ready", ["True", "False", "Unknown"])
def test_lost_access_keeps_the_last_published_status(ready: str) -> None:
    row = replace(probed((0, UP)), access_lost="401 Unauthorized")

    found = debounce(cluster("member1", ready=ready), row, SETTINGS, now=at(600)).conditions

    assert [(one.type, one.status) for one in found] == [("AccessLost", "True"), ("Ready", ready)]
    assert all("401 Unauthorized" in one.message for one in found)


@pytest.mark.parametrize(("seconds", "status"), [(300, "True"), (319.999, "True"), (320, "False")])
def test_time_without_access_does_not_count_as_time_of_failure(seconds: float, status: str) -> None:
    """A probe fails at 0 s, access is refused from 10 s to 300 s, and probes fail again: 10 s of failure are known."""
    refused = seen(401, access="AccessRefused")
    row = probed(
        (-10, UP),
        (0, DOWN),
        *((moment, refused) for moment in range(10, 300, 10)),
        *((moment, DOWN) for moment in (300, 310, 320)),
    )

    assert published(cluster("member1"), row, seconds) == status


def test_an_expired_certificate_has_a_reason_of_its_own_and_ready_says_it_too() -> None:
    expired = seen(0, problem="TLS: the member's certificate has expired", access="CertificateExpired")
    row = probed((0, UP), (10, expired))

    found = {one.type: one for one in debounce(cluster("member1"), row, SETTINGS, now=at(600)).conditions}

    assert (found["AccessLost"].status, found["AccessLost"].reason) == ("True", "CertificateExpired")
    assert (found["Ready"].status, found["Ready"].reason) == ("True", "CertificateExpired")
    assert "has expired" in found["Ready"].message


def test_ready_says_what_the_member_said_once_we_are_let_in_again() -> None:
    member = cluster("member1")
    reported = Condition("Ready", "True", "CertificateExpired")
    member = replace(member, status=replace(member.status, conditions=(reported,)))
    row = probed((0, UP), (10, seen(0, access="CertificateExpired")), (20, seen(200)))

    ready = condition(debounce(member, row, SETTINGS, now=at(20)).conditions, "Ready")

    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "ClusterReady")


def test_access_regained_says_so() -> None:
    member = cluster("member1")
    lost = replace(
        member,
        status=replace(member.status, conditions=(*member.status.conditions, Condition("AccessLost", "True"))),
    )

    found = debounce(lost, probed((0, UP)), SETTINGS, now=at(0)).conditions

    assert ("AccessLost", "False") in [(one.type, one.status) for one in found]


def pull(ready: str = "True") -> Cluster:
    member = cluster("member1", ready=ready)
    return replace(member, spec=replace(member.spec, sync_mode="Pull"))


@pytest.mark.parametrize(("seconds", "status"), [(39.999, "True"), (40, "Unknown")])
def test_a_pull_member_without_heartbeats_is_unknown_after_the_grace_period(seconds: float, status: str) -> None:
    row = heartbeat(Observation("member1"), UP, SETTINGS, now=at(0))

    assert published(pull(), row, seconds) == status


@pytest.mark.parametrize(("seconds", "status"), [(59, ""), (60, "Unknown")])
def test_a_pull_member_that_never_reported_is_unknown_after_the_startup_grace_period(
    seconds: float, status: str
) -> None:
    assert published(pull(ready=""), None, seconds) == status


def test_heartbeats_after_a_silence_pass_the_success_threshold_first() -> None:
    row = heartbeat(Observation("member1"), UP, SETTINGS, now=at(0))
    for seconds in (100, 110, 120, 130):
        row = heartbeat(row, UP, SETTINGS, now=at(seconds))

    assert published(pull("Unknown"), row, 129) == "Unknown"
    assert published(pull("Unknown"), row, 130) == "True"


# [eviction-tier] total, faulty -> tier
@pytest.mark.parametrize(
    ("total", "faulty", "name"),
    [
        (3, 0, NORMAL),
        (3, 1, NORMAL),
        (3, 2, STOPPED),
        (9, 5, STOPPED),
        (10, 6, STOPPED),
        (11, 6, NORMAL),
        (11, 7, SECONDARY),
        (20, 11, NORMAL),
        (20, 12, SECONDARY),
        (3, 3, BLIND),
        (50, 50, BLIND),
        (0, 0, NORMAL),
    ],
)
def test_faults_11_and_12_tiers_by_whole_numbers(total: int, faulty: int, name: str) -> None:
    found = tier(FleetHealth(total, tuple(f"member{n}" for n in range(faulty))), SETTINGS)

    assert found.name == name
    assert found.rate == {NORMAL: 0.5, SECONDARY: 0.1, STOPPED: 0, BLIND: 0}[name]


def test_who_counts_and_who_is_faulty() -> None:
    deleted = cluster("deleted", ready="False").with_meta(deletion_timestamp=START)
    fleet = fleet_health(
        [
            cluster("ready"),
            cluster("tainted", taints=[no_execute()]),
            cluster("down", ready="False"),
            cluster("unknown", ready="Unknown"),
            cluster("never", ready="False", established=False),
            deleted,
        ]
    )

    assert fleet == FleetHealth(4, ("tainted", "down", "unknown"))


def test_a_cluster_with_lost_access_is_not_faulty() -> None:
    member = cluster("member1")
    conditions = (*member.status.conditions, Condition("AccessLost", "True"))

    assert fleet_health([replace(member, status=replace(member.status, conditions=conditions))]).faulty == ()


def test_what_was_observed_of_an_earlier_cluster_of_the_name_is_none_of_the_present_one() -> None:
    """It was unjoined and joined again at once with another address, and its rows are removed a moment later."""
    now, earlier = START, START - timedelta(minutes=1)
    store = MemoryStore(controllers=[ClusterStatus()], clock=lambda: now)
    joined = cluster("member1", ready="", established=False, reported=False).with_meta(creation_timestamp=START)
    rows = (
        Observation("member1", "True", "ClusterReady", since=earlier, observed_at=earlier, answered_at=earlier),
        Collected("member1", kubernetes_version="v1.20.0", at=earlier),
    )
    store.create(joined)
    store.apply([(None, Decision(changes=tuple(Save(row) for row in rows)))], by=Actor("test"))

    def published_now() -> tuple[str, str]:
        run.run_until_idle([ClusterStatus()], store, SETTINGS, world=run.World(answer=lambda question: None))
        found = store.get([joined.ref])[joined.ref]
        return found.ready, found.status.kubernetes_version

    assert published_now() == ("", joined.status.kubernetes_version)
    now = at(1)
    probe = replace(rows[0], observed_at=now, answered_at=now)
    store.apply([(None, Decision(changes=(Save(probe),)))], by=Actor("test"))
    assert published_now() == ("True", joined.status.kubernetes_version)

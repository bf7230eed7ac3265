"""Readiness says beforehand what would keep a workload from leaving, and what to do about it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.eviction.holds import Holds
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.insight.readiness import HAS_FINISHED, Readiness, readiness
from controlplane.kinds.binding import AggregatedStatusItem, Binding, BindingSnapshot, BindingSuspension
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.obstacle import BLOCKS, WARNS
from controlplane.kinds.policy import (
    DIRECTLY,
    ClusterFailoverBehavior,
    StatePreservation,
    StatePreservationRule,
    SuspendClusters,
    Toleration,
)
from controlplane.kinds.rows import Eviction, FleetState, Judgement
from controlplane.kinds.taint_policy import ClusterTaintPolicy
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, eviction, not_ready_policy
from tests.builders.placements import duplicated
from tests.builders.steering import hold, window
from tests.core.fleet_story import FAILOVER

PATIENT = ClusterFailoverBehavior(toleration_seconds=60)


def member(number: int, *, ready: str = "True") -> Cluster:
    return cluster(f"member{number}", ready=ready).with_spec(api_endpoint="https://member.example:6443")


MEMBERS = tuple(member(number) for number in (1, 2, 3))
WATCHING = FleetState("default", failover_on_since=START)
FOR_EVER = Toleration("down", "Exists", effect="NoExecute")
STATE = StatePreservation((StatePreservationRule("example.io/job", "{.jobID}"),))


def app(failover: ClusterFailoverBehavior | None = None, **placement: Any) -> Binding:
    """A copy on member1 that may go anywhere."""
    return binding("web", duplicated(least=1, most=1, **placement), on={"member1": 2}, failover=failover)


def asked(
    one: Binding | None = None,
    settings: Settings = FAILOVER,
    *,
    clusters: tuple[Cluster, ...] = MEMBERS,
    policies: tuple[ClusterTaintPolicy, ...] = (not_ready_policy(),),
    rows: tuple[Eviction, ...] = (),
    **situation: Any,
) -> Readiness:
    now = Situation(clusters, policies, **{"fleet": WATCHING, **situation})
    return readiness(one or app(), FailureOutlook(now, settings, now=START + timedelta(hours=1)), rows=rows)


def test_a_workload_that_would_move_says_so_and_where_to() -> None:
    found = asked()

    assert found.ready
    assert found.obstacles == ()
    (prospect,) = found.prospects
    assert (prospect.cluster, prospect.moves, prospect.after_seconds) == ("member1", True, 0.0)
    assert "member2" in prospect.refuge


@pytest.mark.parametrize(
    ("patience", "unreachable", "waits_for"),
    [
        ("", "Wait", "an operator who confirms that cluster member1 is down: lifeboat fence member1"),
        ("After=300", "Wait", "300 s after the eviction (failover.lifeboat.io/directly-unreachable: After=300)"),
        ("", "Proceed", ""),
    ],
)
def test_a_directly_workload_says_what_will_wait_and_for_whom(patience: str, unreachable: str, waits_for: str) -> None:
    one = app(ClusterFailoverBehavior(purge_mode=DIRECTLY))
    one = one.with_meta(annotations={"failover.lifeboat.io/directly-unreachable": patience} if patience else {})

    (prospect,) = asked(one, replace(FAILOVER, directly_unreachable=unreachable)).prospects

    assert (prospect.moves, prospect.waits_for) == (True, waits_for)
    assert asked(app()).prospects[0].waits_for == ""


def job(**ended_on: str) -> Binding:
    """A Job with copies on member1 and member2, which may run nowhere else; it has ended on some, with a condition."""
    one = binding("web", duplicated("member1", "member2"), on={"member1": 1, "member2": 1})
    statuses = [(name, {"conditions": [{"type": how, "status": "True"}]}) for name, how in ended_on.items()]
    resource = replace(one.spec.resource, api_version="batch/v1", kind="Job")
    reported = tuple([AggregatedStatusItem(name, status, applied=True) for name, status in statuses])
    return one.with_spec(resource=resource).with_status(aggregated_status=reported)


@pytest.mark.parametrize("how", ["Complete", "Failed"])
def test_a_copy_that_has_finished_stays_and_is_no_obstacle(how: str) -> None:
    running, half, over = asked(job()), asked(job(member1=how)), asked(job(member1=how, member2=how))

    assert [[one.cluster for one in found.obstacles] for found in (running, half, over)] == [
        ["member1", "member2"],
        ["member2"],
        [],
    ]
    assert [running.ready, half.ready, over.ready] == [False, False, True]
    assert [(one.moves, one.refuge) for one in over.prospects] == [(False, HAS_FINISHED)] * 2


HOLD = hold("h", reason="fair")
STATEFUL = replace(FAILOVER, feature_gates={**GATES, "Failover": True, "StatefulFailoverInjection": True})
WINDOW = window("member1", until=7200, reason="new switches")
RATELESS = replace(FAILOVER, resource_eviction_rate=0.0, secondary_resource_eviction_rate=0.0)
DIRECT = ClusterFailoverBehavior(purge_mode=DIRECTLY)
GONE = (MEMBERS[0], member(2, ready="False"), member(3, ready="False"))
WITHHELD = BindingSuspension(dispatching_on_clusters=SuspendClusters(("member2", "member3")))
SUSPENDED = app().with_spec(suspension=BindingSuspension(scheduling=True))

MISCONFIGURED: dict[str, tuple[str, dict[str, Any]]] = {
    "the gate is off": ("GateOff", {"settings": replace(FAILOVER, feature_gates=dict(GATES))}),
    "a controller is off": ("ControllerDisabled", {"settings": replace(FAILOVER, controllers=("*", "-evictions"))}),
    "no process observes the cluster": ("NotDetected", {"clusters": (member(1, ready=""), *MEMBERS[1:])}),
    "no policy taints it": ("NoTaintPolicy", {"policies": ()}),
    "the policy looks for something else": ("NoTaintPolicy", {"policies": (not_ready_policy(status="True"),)}),
    "it is tolerated for ever": ("Tolerated", {"one": app(tolerations=[FOR_EVER])}),
    "the taint only prefers": ("StaysByDefault", {"policies": (not_ready_policy("PreferNoExecute"),)}),
    "there is no other cluster": ("NoRefuge", {"one": binding("web", duplicated("member1"), on={"member1": 2})}),
    "the state is not there": ("StateMissing", {"one": app(replace(DIRECT, state_preservation=STATE))}),
    "state rules are ignored": ("StateIgnored", {"one": app(ClusterFailoverBehavior(state_preservation=STATE))}),
    "directly would wait": ("DirectlyUnreachable", {"one": app(DIRECT)}),
    "a user holds it": ("OnHold", {"holds": Holds((HOLD,))}),
    "its cluster has no address": (
        "NotDetected",
        {"clusters": (MEMBERS[0].with_spec(api_endpoint=""), *MEMBERS[1:])},
    ),
    "a user works on the cluster": ("Maintenance", {"holds": Holds(windows=(WINDOW,))}),
    "nothing may leave a second": ("RateStopped", {"settings": RATELESS}),
    "too many clusters are down": ("RateStopped", {"clusters": GONE}),
    "its cluster has left": ("ClusterGone", {"clusters": MEMBERS[1:]}),
    "it is suspended": ("Suspended", {"one": SUSPENDED}),
    "nothing is sent to where it would go": ("Suspended", {"one": app().with_spec(suspension=WITHHELD)}),
}


@pytest.mark.parametrize("name", MISCONFIGURED)
def test_each_misconfiguration_is_named_with_its_remedy(name: str) -> None:
    what, given = MISCONFIGURED[name]
    settings = {"settings": STATEFUL} if what == "StateMissing" else {}

    found = asked(**{**settings, **given})

    named = {one.what: one for one in found.obstacles}
    allowed = {what, "DirectlyUnreachable"} if what == "StateMissing" else {what}
    assert what in named
    assert set(named) <= allowed | ({"NoRefuge"} if what == "RateStopped" else set())
    assert named[what].message.rstrip(": ") == named[what].message
    assert named[what].remedy


def test_what_only_warns_does_not_keep_it_from_being_ready() -> None:
    found = asked(app(DIRECT))

    assert found.ready
    assert [one.severity for one in found.obstacles] != [BLOCKS]


@pytest.mark.parametrize(
    ("failover", "due", "said"), [(PATIENT, None, True), (None, None, False), (PATIENT, START, False)]
)
def test_a_copy_that_stays_as_it_was_decided_says_so_although_its_policy_would_have_it_leave(
    failover: ClusterFailoverBehavior | None, due: datetime | None, said: bool
) -> None:
    """[judged-once] `due`: of the judgement. An eviction with one that an operator skipped stays for another reason."""
    soft = Taint("gone", "PreferNoExecute", time_added=START)
    there = (MEMBERS[0].with_spec(taints=(soft,)), *MEMBERS[1:])
    decided = Judgement("gone", "PreferNoExecute", START, due)

    found = asked(app(failover), clusters=there, rows=(eviction(app(), due_at=None, judged=(decided,)),))

    reported = [one for one in found.obstacles if one.what == "DecidedToStay"]
    assert [(one.severity, one.cluster) for one in reported] == ([(WARNS, "member1")] if said else [])
    assert all("gone:PreferNoExecute" in one.message for one in reported)


def test_what_goes_along_with_a_workload_names_it() -> None:
    attached = app().with_spec(placement=None, clusters=(), required_by=(BindingSnapshot("default", "web-deployment"),))

    found = asked(attached)

    assert found.ready
    (reported,) = found.obstacles
    assert (reported.what, reported.severity, reported.remedy) == ("GoesAlong", WARNS, "read web-deployment/readiness")


REMEDIES = {
    "resourceEvictionRate is 0": ({"settings": RATELESS}, "resourceEvictionRate in FailoverConfiguration/default"),
    "the control plane itself may be cut off": (
        {"clusters": tuple(member(number, ready="False") for number in (1, 2, 3))},
        "from another network",
    ),
    "a fleet of at most 10": ({"clusters": GONE}, "largeClusterNumThreshold"),
    "MaintenanceWindow work until": ({"holds": Holds(windows=(WINDOW,))}, "spec.until"),
    "EvictionHold h: fair": ({"holds": Holds((HOLD,))}, "delete the EvictionHold"),
}


@pytest.mark.parametrize("why", REMEDIES)
def test_a_remedy_is_about_what_is_in_the_way(why: str) -> None:
    given, remedy = REMEDIES[why]

    (found,) = [one for one in asked(**given).obstacles if why in one.message]

    assert remedy in found.remedy

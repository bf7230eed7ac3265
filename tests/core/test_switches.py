"""Every switch of docs/settings.md does something: turned alone, it changes what is decided of the same situation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from controlplane.clusters import eviction_tier, health
from controlplane.clusters.questions import Answer
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.controllers.fleet_watch import FleetWatch
from controlplane.estimate.request import request_from
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.cluster import Cluster, NodePool, NodeRoom, NodeTaint, ResourceSummary
from controlplane.kinds.policy import Placement, Toleration
from controlplane.kinds.policy.placement_rules import with_default_tolerations
from controlplane.kinds.rows import Observation
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import GATES, Compat, EstimatorSettings, EvictionSettings, Settings
from controlplane.settings.listing import all_settings
from tests.builders import objects, placements, scheduling, templates
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import by_room, duplicated
from tests.core import propagation_story as propagation
from tests.core import test_drift as drift
from tests.core.fleet_story import FAILOVER, Story
from tests.core.test_estimate import SEED
from tests.core.test_graceful import LATE, cleared, moving, task
from tests.core.test_readiness import DIRECT, STATE, STATEFUL, app, asked

ONE = duplicated(least=1, most=1)
FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)
NO_EXECUTE_BY_ITSELF = replace(FAILOVER, compat=Compat(auto_no_execute_taints=True))


class Turned(NamedTuple):
    """Another value of a switch, a situation that tells it from the one in `base`, and what each comes to."""

    value: Any
    decided: Callable[[Settings], Any]
    before: Any
    after: Any
    base: Settings = FAILOVER


def put_back_at_once(settings: Settings) -> bool:
    """Whether a field that was changed on a member is written again."""
    return (
        drift.state(drift.applied(drift.observed(drift.work(), drift.DRIFT, settings)[0], settings)[0], "Drifted")[0]
        != "True"
    )


def obstacles(one: Any = None) -> Callable[[Settings], set[tuple[str, str]]]:
    return lambda settings: {(found.what, found.severity) for found in asked(one, settings).obstacles}


def probed(*, down: bool, seconds: float) -> Callable[[Settings], str]:
    """Ready of a cluster that began to answer otherwise so many seconds ago."""
    was, turned = ("True", "False") if down else ("False", "True")
    row = Observation("member1", turned, since=START, observed_at=START + timedelta(seconds=seconds))
    return lambda settings: ready(cluster("member1", ready=was), row, settings, seconds)


def heard(row: Observation | None, seconds: float) -> Callable[[Settings], str]:
    """Ready of a Pull member so many seconds after it joined."""
    member = cluster("member1", ready="").with_spec(sync_mode="Pull")
    return lambda settings: ready(member, row, settings, seconds)


def ready(member: Cluster, row: Observation | None, settings: Settings, seconds: float) -> str:
    settled = health.debounce(member, row, settings, now=START + timedelta(seconds=seconds))
    return next((one.status for one in settled.conditions if one.type == "Ready"), "")


def rate(total: int, faulty: int) -> Callable[[Settings], float]:
    fleet = eviction_tier.FleetHealth(total, tuple(f"member{n}" for n in range(faulty)))
    return lambda settings: eviction_tier.tier(fleet, settings).rate


def taints(seconds: float, **changes: Any) -> Callable[[Settings], set[str]]:
    """What a cluster that is not Ready, or is being deleted, is tainted with after a while."""

    def decided(settings: Settings) -> set[str]:
        first = cluster("member1", ready="True" if changes else "False").with_meta(**changes)
        story = Story(first, cluster("member2"), settings=settings)
        story.pass_seconds(seconds)
        return {f"{one.key.rpartition('/')[2]}:{one.effect}" for one in story.cluster("member1").spec.taints}

    return decided


def lost(placement: Placement = ONE, *, also: str = "member9", seconds: float = 10) -> Callable[[Settings], Story]:
    """What has happened so many seconds after member1 was lost."""

    def decided(settings: Settings) -> Story:
        members = [cluster("member1", ready="False"), cluster("member2", room=3), cluster("member3"), cluster(also)]
        on = {"member1": 4} if placement.divided else {"member1": 2, "member2": 2, "member3": 2}
        on = {"member1": 2} if placement is ONE else on
        story = Story(*members, cluster("member4"), binding("web", placement, on=on, replicas=4), settings=settings)
        story.taint("member1", no_execute())
        story.pass_seconds(seconds)
        return story

    return decided


def left(placement: Placement) -> Callable[[Settings], bool]:
    return lambda settings: "member1" not in lost(placement)(settings).placed("web")


def purge_mode(settings: Settings) -> str:
    story = Story(cluster("member1"), cluster("member2"), binding("web", ONE, on={"member1": 2}), settings=settings)
    story.members.healthy = False
    story.taint("member1", no_execute())
    story.pass_seconds(5)
    return story.binding("web").spec.graceful_eviction_tasks[0].purge_mode


def first_to_leave(settings: Settings) -> list[str]:
    """One that has been due for long, and one of higher priority that has just become due; one token."""
    slow = replace(settings, resource_eviction_rate=0.04, secondary_resource_eviction_rate=0.04)
    high = binding("high", ONE, on={"member2": 2}, priority=1)
    members = [cluster(f"member{n}") for n in range(1, 6)]
    story = Story(*members, binding("low", ONE, on={"member1": 2}), high, settings=slow)
    story.taint("member1", no_execute())
    story.pass_seconds(22)
    story.taint("member2", no_execute(at=story.now))
    story.pass_seconds(4)
    return [name for name, old in (("low", "member1"), ("high", "member2")) if old not in story.placed(name)]


def stays_after_an_edit(settings: Settings) -> bool:
    bears = Toleration("gone", "Exists", toleration_seconds=60)
    placement = duplicated(least=1, most=1, tolerations=[bears])
    members = [cluster(f"member{n}") for n in range(1, 4)]
    story = Story(*members, binding("web", placement, on={"member1": 2}), settings=settings)
    story.taint("member1", no_execute())
    old = story.binding("web")
    for_ever = duplicated(least=1, most=1, tolerations=[replace(bears, toleration_seconds=None)])
    story.store.put(old.with_spec(placement=for_ever), old)
    story.pass_seconds(90)
    return "member1" in story.placed("web")


def shares(*, replicas: int, **more: Any) -> Callable[[Settings], dict[str, int]]:
    wanted = scheduling.spec(placements.placement(), replicas=replicas, **more)
    members = [cluster(name, room=10) for name in ("a", "b")]
    return lambda settings: scheduling.shares(scheduling.ask(members, wanted, settings=settings))


def collected(settings: Settings) -> bool:
    member = cluster("member1").with_spec(api_endpoint="https://member1.example:6443")
    asked_ = Collection().question(CollectionSnapshot(member, None, None), settings, now=START)
    return asked_ is not None and asked_.resources


def by_nodes(settings: Settings) -> dict[str, int]:
    """Divide two replicas among a cluster whose only node has a taint, and another cluster."""
    tainted = ResourceSummary(
        allocatable={"pods": "9", "cpu": "9"},
        node_pools=(
            NodePool(taints=(NodeTaint("gpu", "NoSchedule"),), nodes=(NodeRoom(1, {"pods": "9", "cpu": "9"}),)),
        ),
    )
    wanted = scheduling.spec(placements.by_room("a", "b"), replicas=2)
    members = [cluster("a", summary=tainted), cluster("b", room=9)]
    return scheduling.shares(scheduling.ask(members, wanted, settings=settings))


def looked_again(settings: Settings) -> float:
    decision = Collection().decide(
        CollectionSnapshot(cluster("member1"), None, None), settings, now=START, answer=Answer(503)
    )
    assert decision.wake_at is not None
    return (decision.wake_at - START).total_seconds()


def monitored(settings: Settings) -> float:
    due = Story(cluster("member1"), settings=settings).store.next_due([FleetWatch.name])
    assert due is not None
    return (due - START).total_seconds()


def propagated(settings: Settings) -> bool:
    web = templates.deployment(namespace="kube-shop")
    story = propagation.Story(objects.policy(namespace=""), web, settings=settings)
    return any(ref.namespace == "kube-shop" and "Binding" in ref.kind for ref in story.store.objects)


def free(settings: Settings) -> dict[str, int]:
    fleet = Fleet.of(SEED, settings=settings)
    rooms = fleet.replicas(request_from({"cpu": "3", "memory": "60Gi"}))
    return dict(zip(fleet.names, map(int, rooms), strict=True))


def tolerated(settings: Settings) -> dict[str, int | None]:
    found = with_default_tolerations(Placement(), settings.compat).cluster_tolerations
    return {one.key.rpartition("/")[2]: one.toleration_seconds for one in found}


GUIDE = [one.metadata.name for one in SEED]
BY_PURGE = Settings(graceful_eviction_timeout=600, on_graceful_timeout="Purge")
UNHEALTHY = moving(task(), on={"member2": 2}, member2="Unhealthy")
BACK = moving(task("member2"), on={"member2": 2}, member2="Unhealthy")
HEARD = Observation("member1", "True", since=START, observed_at=START, renewed_at=START)
LEAVING = {"on": {"a": 1}, "tasks": [GracefulEvictionTask("b", reason="TaintUntolerated")]}
GOING = {"deletion_timestamp": START, "finalizers": ("karmada.io/cluster-controller",)}
NOT_READY, TERMINATING = "not-ready:NoSchedule", "terminating:NoExecute"
THREE = duplicated("member1", "member2", "member3", least=2, most=3)

TURNED: dict[str, Turned] = {
    "feature_gates": Turned(dict(GATES), obstacles(), set(), {("GateOff", "Blocks")}),
    "controllers": Turned(("*", "-evictions"), obstacles(), set(), {("ControllerDisabled", "Blocks")}),
    "cluster_status_update_frequency": Turned(60, looked_again, 10, 60),
    "cluster_success_threshold": Turned(10, probed(down=False, seconds=20), "False", "True"),
    "cluster_failure_threshold": Turned(10, probed(down=True, seconds=20), "True", "False"),
    "cluster_monitor_period": Turned(60, monitored, 5, 60),
    "cluster_monitor_grace_period": Turned(90, heard(HEARD, 60), "Unknown", "True"),
    "cluster_startup_grace_period": Turned(30, heard(None, 45), "", "Unknown"),
    "auto_no_schedule_taints": Turned(False, taints(1), {NOT_READY}, set()),
    "failover_eviction_timeout": Turned(
        600, taints(400), {NOT_READY, "not-ready:NoExecute"}, {NOT_READY}, NO_EXECUTE_BY_ITSELF
    ),
    "resource_eviction_rate": Turned(9, rate(10, 1), 0.5, 9),
    "secondary_resource_eviction_rate": Turned(0.2, rate(20, 15), 0.1, 0.2),
    "unhealthy_cluster_threshold": Turned(0.5, rate(20, 11), 0.5, 0.1),
    "large_cluster_num_threshold": Turned(5, rate(10, 9), 0, 0.1),
    "no_execute_taint_eviction_purge_mode": Turned("Directly", purge_mode, "Gracefully", "Directly", FAST),
    "graceful_eviction_timeout": Turned(3600, lambda s: cleared(UNHEALTHY, s, at=LATE), ["member1"], [], BY_PURGE),
    "on_graceful_timeout": Turned("Purge", lambda s: cleared(UNHEALTHY, s, at=LATE), [], ["member1"]),
    "evict_plugins": Turned(("ResourceHealth",), lambda s: cleared(BACK, s), ["member2"], []),
    "drift": Turned("Report", put_back_at_once, True, False),
    "directly_unreachable": Turned("Proceed", obstacles(app(DIRECT)), {("DirectlyUnreachable", "Warns")}, set()),
    "state_preservation_on_missing": Turned(
        "Proceed",
        lambda s: obstacles(app(replace(DIRECT, state_preservation=STATE)))(s) - {("DirectlyUnreachable", "Warns")},
        {("StateMissing", "Blocks")},
        {("StateMissing", "Warns")},
        STATEFUL,
    ),
    "enable_cluster_resource_modeling": Turned(False, collected, True, False),
    "enable_scheduler_estimator": Turned(True, by_nodes, {"a": 1, "b": 1}, {"b": 2}),
    "enable_empty_workload_propagation": Turned(True, shares(replicas=0), {}, {"a": 0, "b": 0}),
    "skipped_propagating_namespaces": Turned(("skipped",), propagated, False, True),
    "compat.auto_no_execute_taints": Turned(True, taints(301), {NOT_READY}, {NOT_READY, "not-ready:NoExecute"}),
    "compat.default_not_ready_toleration_seconds": Turned(300, tolerated, {}, {"not-ready": 300}),
    "compat.default_unreachable_toleration_seconds": Turned(300, tolerated, {}, {"unreachable": 300}),
    "compat.terminating_taint": Turned(True, taints(1, **GOING), set(), {TERMINATING}),
    "compat.cluster_eviction_filter": Turned(True, shares(replicas=1, **LEAVING), {"a": 1, "b": 1}, {"a": 1}),
    "eviction.bucket_scope": Turned("Cluster", lambda s: set(lost()(s).buckets), {"fleet"}, {"cluster/member1"}),
    "eviction.ageing_seconds": Turned(10, first_to_leave, ["high"], ["low"]),
    "eviction.reevaluate_policies": Turned(True, stays_after_an_edit, False, True, FAST),
    "eviction.require_full_replacement": Turned(True, left(THREE), True, False, FAST),
    "eviction.partial_refuge": Turned(False, left(by_room("member1", "member2")), True, False, FAST),
    "estimator.model_formula": Turned(
        "Strict", free, dict(zip(GUIDE, (6, 4, 4), strict=True)), dict(zip(GUIDE, (0, 0, 4), strict=True))
    ),
}
# What `manage.py join --pull` tells an agent to do: tests/api/test_settings.py
SENT_TO_AGENTS = {"cluster_lease_duration", "cluster_lease_renew_fraction"}
# No controller reads them. Which partitions they drop: tests/stores/test_log.py
OF_THE_LOG = {"change_log.keep_seconds", "change_log.keep_versions", "change_log.keep_bytes"}
# No controller reads them. Which addresses are called: tests/core/test_addresses.py. How much a member may send, and
# how much of it is kept: tests/apps/test_hostile_member.py
OF_CALLS = {
    "members.refused_addresses",
    "members.allowed_addresses",
    "members.answer_bytes",
    "members.watch_bytes",
    "members.compare_seconds",
}
# No controller reads them. What they end and limit: tests/api/test_proxy.py
OF_THE_PROXY = {
    *("members.proxy_answer_seconds", "members.proxy_idle_seconds", "members.proxy_longest_seconds"),
    *("members.proxy_requests", "members.proxy_requests_per_user", "members.proxy_requests_per_member"),
}


def test_no_switch_is_left_out() -> None:
    elsewhere = SENT_TO_AGENTS | OF_THE_LOG | OF_CALLS | OF_THE_PROXY
    assert {setting.name for setting in all_settings()} == set(TURNED) | elsewhere


@pytest.mark.parametrize("name", TURNED)
def test_a_switch_turned_alone_changes_what_is_decided(name: str) -> None:
    turned = TURNED[name]

    assert turned.decided(turned.base) == turned.before
    assert turned.decided(_with(turned.base, name, turned.value)) == turned.after


def _with(base: Settings, name: str, value: Any) -> Settings:
    outer, dot, inner = name.partition(".")
    if not dot:
        return replace(base, **{outer: value})
    group: Compat | EvictionSettings | EstimatorSettings = getattr(base, outer)
    return replace(base, **{outer: replace(group, **{inner: value})})

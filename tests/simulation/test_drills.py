"""Game days: a simulated loss that touches nothing, and a real drain, each to its report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, condition
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.kinds import CLUSTER, EVENT
from controlplane.kinds.cluster import Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import COMPLETE, DRILL, Drill, DrillStatus
from controlplane.settings import GATES
from tests.simulation.manifests import DIVIDED, NGINX
from tests.simulation.outages import wait
from tests.simulation.stories import QUICK, apply, copies_on, joined, placed, ready_for_an_hour
from tests.simulation.world import Simulation

SEEDS = range(2)
STUCK = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: %s-policy}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: %s}]
  placement: {clusterAffinity: {clusterNames: [member1]}}
"""

BY_ROOM = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: nginx}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
"""


def drill(world: Simulation, name: str = "gameday", **spec: Any) -> None:
    """Create a Drill on member1."""
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Drill", "metadata": {"name": name}}
    apply(world, {**head, "spec": {"clusters": ["member1"], **spec}})


def status(world: Simulation, name: str = "gameday") -> DrillStatus:
    ref = Ref(DRILL, "", name)
    found: Drill = world.store.get([ref])[ref]
    return found.status


def events(world: Simulation) -> set[str]:
    return {one.reason for one in world.store.list(EVENT) if one.involved_object.kind == "Drill"}


def filled(*, seed: int = 0, workloads: int = 3, **more: Any) -> Simulation:
    """Return a simulation with workloads divided over three members, all of them healthy."""
    world = joined("member1", "member2", "member3", seed=seed, **more)
    for number in range(workloads):
        apply(world, *(text.replace("nginx", f"app{number}") for text in (DIVIDED, NGINX % 3)))
    world.run(60)
    assert copies_on(world, "member1") == workloads
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_a_simulated_loss_is_reported_at_once_and_touches_nothing(seed: int) -> None:
    world = filled(seed=seed)
    apply(world, STUCK % ("app9", "app9"), (NGINX % 1).replace("nginx", "app9"))
    wait(world, 20)
    before = world.store.version

    drill(world, criteria={"maxWithoutPlace": 1, "maxDurationSeconds": 300})
    wait(world, 2)

    found = status(world)
    assert (found.phase, found.result, found.workloads, found.moved, found.without_place) == (
        *("Finished", "Passed"),
        *(4, 3, 1),
    )
    assert "app9" in found.findings[0].binding
    assert {one.criterion: one.passed for one in found.verdicts} == {
        "maxDurationSeconds": True,
        "maxWithoutPlace": True,
    }
    assert found.duration_seconds is not None
    assert copies_on(world, "member1") == 4
    written = {ref.kind for version, ref in changed(world) if version > before}
    assert written <= {DRILL, EVENT}
    assert "DrillPassed" in events(world)


def changed(world: Simulation) -> list[tuple[int, Ref]]:
    """Return version and reference of every write so far."""
    return [(int(one.version), one.ref) for one in world.store.log]


def test_a_simulated_loss_fails_if_a_criterion_is_not_met_and_counts_only_chosen_workloads() -> None:
    world = filled()
    apply(world, STUCK % ("app9", "app9"), (NGINX % 1).replace("nginx", "app9"))
    wait(world, 20)

    drill(world, "all", criteria={"maxDurationSeconds": 1})
    drill(world, "others", selector={"matchLabels": {"app": "app0"}}, criteria={"maxDurationSeconds": 300})
    drill(world, "nowhere", namespaces=["shop"])
    wait(world, 2)

    failed, others, nowhere = status(world, "all"), status(world, "others"), status(world, "nowhere")
    assert failed.result == "Failed"
    assert failed.message.startswith("Failed: 3 of 4 workloads would leave member1 in ")
    assert "1 workload without a place, at most 0" in failed.message
    assert (others.result, others.workloads, others.moved) == ("Passed", 1, 1)
    assert (nowhere.result, nowhere.workloads) == ("Passed", 0)
    complete = condition(failed.conditions, COMPLETE)
    assert complete is not None
    assert (complete.status, complete.reason) == ("True", "Failed")
    assert {"DrillFailed", "DrillPassed"} <= events(world)


def test_a_simulated_loss_fails_while_nothing_would_be_evicted() -> None:
    world = filled(settings=replace(QUICK, feature_gates={**GATES, "Failover": False}))

    drill(world)
    wait(world, 2)

    assert (status(world).result, status(world).without_place) == ("Failed", 3)
    assert "lifeboat readiness" in status(world).findings[0].message


@pytest.mark.parametrize("seed", SEEDS)
def test_a_real_drill_empties_the_cluster_and_no_workload_loses_its_copies(seed: int) -> None:
    world = filled(seed=seed)

    drill(world, mode="Drain", rate=1, reason="October", criteria={"maxDurationSeconds": 120, "minHealthyCopies": 1})
    wait(world, 2)
    running = status(world)
    wait(world, 90)

    assert (running.phase, running.workloads) == ("Running", 3)
    found = status(world)
    assert (found.phase, found.result, found.moved) == ("Finished", "Passed", 3), found
    assert found.least_healthy_copies == 1  # of three: those that grow count once all their replicas are ready
    assert found.duration_seconds is not None
    assert 0 < found.duration_seconds <= 90
    assert copies_on(world, "member1") == 0
    assert "lifeboat uncordon member1" in found.remarks[0]
    assert {"DrillStarted", "DrillPassed"} <= events(world)
    before = found
    wait(world, 300)
    assert status(world) == before  # the report is kept


def test_a_real_drill_ends_when_nothing_more_can_leave() -> None:
    world = filled()
    apply(world, STUCK % ("app9", "app9"), (NGINX % 1).replace("nginx", "app9"))
    wait(world, 20)

    drill(world, mode="Drain", rate=5, criteria={"maxDurationSeconds": 3600})
    wait(world, 120)

    found = status(world)
    assert (found.phase, found.result, found.moved, found.without_place) == ("Finished", "Failed", 3, 1), found
    assert "app9" in found.findings[0].binding
    assert world.store.get([Ref(DRAIN, "", "gameday-member1")])[Ref(DRAIN, "", "gameday-member1")].spec.stop


def test_a_real_drill_fails_when_its_time_is_over_and_stops_its_drain() -> None:
    world = filled(workloads=4)

    drill(world, mode="Drain", rate=0.02, criteria={"maxDurationSeconds": 30})
    wait(world, 60)
    found, left = status(world), copies_on(world, "member1")
    wait(world, 200)

    assert (found.phase, found.result) == ("Finished", "Failed"), found
    assert "not over after 30 s" in found.message
    assert copies_on(world, "member1") == left > 0


def test_a_workload_without_enough_healthy_copies_fails_the_drill() -> None:
    world = filled()
    for member in world.members.values():
        member.ready_after = timedelta(seconds=20)

    drill(world, mode="Drain", rate=5, criteria={"minHealthyCopies": 3})
    wait(world, 120)

    found = status(world)
    assert found.result == "Failed"
    assert {one.criterion for one in found.verdicts if not one.passed} == {"minHealthyCopies"}
    assert "healthy copies" in found.findings[0].message


def taint_keys(world: Simulation, name: str) -> set[str]:
    ref = Ref(CLUSTER, "", name)
    return {taint.key for taint in world.store.get([ref])[ref].spec.taints}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_real_drill_brings_the_workloads_back_and_uncordons_what_it_has_cordoned(seed: int) -> None:
    world = filled(seed=seed)
    ready_for_an_hour(world)  # so that workloads may return

    drill(world, mode="Drain", rate=5, returns=True, criteria={"maxDurationSeconds": 120})
    wait(world, 120)

    found = status(world)
    assert (found.phase, found.result, found.moved, found.returned) == ("Finished", "Passed", 3, 3), found
    assert found.message.endswith("3 returned")
    assert copies_on(world, "member1") == 3
    assert taint_keys(world, "member1") == set()
    assert {"DrillStarted", "DrillReturning", "DrillPassed"} <= events(world)


def test_workloads_return_to_a_cluster_that_reports_a_little_later_that_it_is_empty() -> None:
    world = joined("member1", "member2", pods=14)
    for member in world.members.values():
        member.reports_pods = True
    apply(world, BY_ROOM, NGINX % 20)
    wait(world, 120)
    assert placed(world) == {"member1": 10, "member2": 10}
    world.members["member2"].pods = 60
    ready_for_an_hour(world)
    wait(world, 120)

    drill(world, mode="Drain", rate=2, returns=True, criteria={"maxDurationSeconds": 600})
    wait(world, 300)

    assert (status(world).phase, status(world).result, status(world).returned) == ("Finished", "Passed", 1), status(
        world
    )
    assert placed(world) == {"member1": 10, "member2": 10}


def test_a_drill_whose_workloads_cannot_return_has_failed() -> None:
    world = filled()
    cordoned = next(one for one in world.store.list(CLUSTER) if one.metadata.name == "member1")
    taint = Taint(UNSCHEDULABLE_TAINT, "NoSchedule", time_added=world.now)
    world.store.put(cordoned.with_spec(taints=(taint,)), cordoned)

    drill(world, mode="Drain", rate=5, returns=True)
    wait(world, 800)

    found = status(world)
    assert (found.phase, found.result, found.returned) == ("Finished", "Failed", 0), found
    assert "has not returned" in found.findings[0].message
    assert taint_keys(world, "member1") == {UNSCHEDULABLE_TAINT}  # it was cordoned before


def test_a_drill_is_stopped_with_its_drain_and_has_no_result() -> None:
    world = filled(workloads=4)
    drill(world, mode="Drain", rate=0.02)
    wait(world, 5)
    ref = Ref(DRILL, "", "gameday")
    running: Drill = world.store.get([ref])[ref]

    world.store.put(running.with_spec(stop=True), running)
    wait(world, 5)
    left = copies_on(world, "member1")
    wait(world, 200)

    assert (status(world).phase, status(world).result) == ("Stopped", "")
    assert copies_on(world, "member1") == left > 0
    assert placed(world, Ref("work.karmada.io/ResourceBinding", "default", "app3-deployment"))
    assert "DrillStopped" in events(world)

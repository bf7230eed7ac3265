"""The failover guide's FlinkDeployment, end to end: its state goes along, and never do two of it run at once
[directly-unreachable] [state-preservation]."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.clusters.fence import FenceRequest, fenced
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.eviction.graceful import EVICTION_STUCK, WAITING_WORKLOAD
from controlplane.kind import KINDS
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.rows import HELD, Eviction
from controlplane.settings import Settings
from tests import flink
from tests.simulation.member import DOWN
from tests.simulation.stories import QUICK, apply, binding, joined, placed
from tests.simulation.test_drain import UPGRADE, drain
from tests.simulation.world import Simulation

SEEDS = range(4)
STATEFUL: Settings = replace(QUICK, feature_gates={**QUICK.feature_gates, "StatefulFailoverInjection": True})
PLACE = (flink.GROUP_VERSION, "FlinkDeployment", "default", "flink-app")
BINDING = Ref(kinds.RESOURCE_BINDING, "default", flink.BINDING)
POLICY = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: flink-propagation
spec:
  resourceSelectors:
  - apiVersion: flink.apache.org/v1beta1
    kind: FlinkDeployment
    name: flink-app
  failover:
    cluster:
      purgeMode: Directly
      statePreservation:
        rules:
        - aliasLabelName: application.karmada.io/cluster-failover-jobid
          jsonPath: "{ .jobStatus.jobID }"
  placement:
    clusterAffinity:
      clusterNames: [member1, member2, member3]
    spreadConstraints:
    - maxGroups: 1
      minGroups: 1
      spreadByField: cluster
"""
ON_ONE = flink.EVERYWHERE.replace(
    "placement: {}", "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]}"
)
IN_TURN = POLICY.replace("purgeMode: Directly", "purgeMode: Gracefully")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    KINDS.set_custom(())


def started(seed: int, *, ready: bool = True) -> tuple[Simulation, str]:
    """A FlinkDeployment on one of three members it may be on, of five; return its cluster as well."""
    world = joined(*(f"member{number}" for number in range(1, 6)), seed=seed, settings=STATEFUL)
    world.checks.append(never_two)
    if not ready:
        for member in world.members.values():
            member.fault = "notready"
    apply(world, flink.DEFINITION, flink.EVERYWHERE)
    world.run(30)
    apply(world, POLICY, flink.APP)
    world.run(60)
    (home,) = placed(world, BINDING)
    return world, home


def never_two(world: Simulation) -> None:
    """Exactly-once: no two clusters that are up hold the application at the same time."""
    holders = [one.name for one in world.members.values() if PLACE in one.objects and one.fault != "down"]
    assert len(holders) < 2, f"seed {world.seed}: {holders} both run it at {world.now}"


def taint(world: Simulation, name: str) -> None:
    ref = Ref(kinds.CLUSTER, "", name)
    old: Cluster = world.store.get([ref])[ref]
    gone = Taint("maintenance", "NoExecute", time_added=world.now)
    world.store.put(old.with_spec(taints=(*old.spec.taints, gone)), old)


def first_labels(world: Simulation, name: str) -> dict[str, str]:
    """The labels of the first create a member saw."""
    return next(labels for _, place, labels in world.members[name].created if place == PLACE)


def where(world: Simulation) -> str:
    (name,) = placed(world, BINDING)
    return name


@pytest.mark.parametrize("seed", SEEDS)
def test_the_job_id_goes_along_on_the_first_create_and_the_old_one_is_gone_first(seed: int) -> None:
    world, home = started(seed)

    taint(world, home)
    world.run(120)

    new = where(world)
    assert new != home
    assert PLACE not in world.members[home].objects
    assert first_labels(world, new)[flink.LABEL] == f"{home}-job"
    assert binding(world, BINDING).spec.graceful_eviction_tasks == ()
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_job_id_goes_along_when_its_cluster_is_drained(seed: int) -> None:
    world, home = started(seed)

    apply(world, UPGRADE % (home, "1", "false"))
    world.run(120)

    new = where(world)
    assert new != home
    assert first_labels(world, new)[flink.LABEL] == f"{home}-job"


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_state_a_drain_leaves_it_where_it_is_and_says_what_is_missing(seed: int) -> None:
    world, home = started(seed, ready=False)

    apply(world, UPGRADE % (home, "1", "false"))
    world.run(120)

    assert where(world) == home
    (said,) = [one for one in drain(world).status.cannot_leave if one.binding == str(BINDING)]
    assert f"the state to carry over cannot be read from cluster {home}" in said.message


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_failover_carries_the_newest_state(seed: int) -> None:
    world, first = started(seed)

    taint(world, first)
    world.run(120)
    second = where(world)
    taint(world, second)
    world.run(200)

    third = where(world)
    assert len({first, second, third}) == 3
    assert first_labels(world, third)[flink.LABEL] == f"{second}-job"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_second_failover_before_the_new_copy_ran_carries_what_the_first_one_saved(seed: int) -> None:
    world, first = started(seed)
    for member in world.members.values():
        member.fault = "none" if member.name == first else "notready"

    taint(world, first)
    world.run(120)
    second = where(world)
    taint(world, second)
    world.run(200)
    third = where(world)

    assert len({first, second, third}) == 3
    assert [first_labels(world, name)[flink.LABEL] for name in (second, third)] == [f"{first}-job"] * 2


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_state_the_eviction_is_held_and_says_what_is_missing(seed: int) -> None:
    world, home = started(seed, ready=False)

    taint(world, home)
    world.run(120)

    assert where(world) == home
    (row,) = world.store.rows(Eviction, "binding", [str(BINDING)])[str(BINDING)]
    assert row.state == HELD
    assert row.reason == "StateMissing"
    assert flink.LABEL in row.message


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lost_cluster_is_waited_for_until_it_is_fenced(seed: int) -> None:
    world, home = started(seed)

    world.fault(home, "down")
    world.run(180)
    new = where(world)
    assert new != home
    assert PLACE not in world.members[new].objects
    said = condition(binding(world, BINDING).status.conditions, DIRECTLY_WAITING)
    assert said is not None
    assert said.status == "True"

    ref = Ref(kinds.CLUSTER, "", home)
    lost: Cluster = world.store.get([ref])[ref]
    world.store.put(fenced(lost, FenceRequest("it burnt down", 3600), by="ana", now=world.now), lost)
    world.run(240)

    assert first_labels(world, new)[flink.LABEL] == f"{home}-job"
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_timeout_that_purges_starts_nothing_beside_what_may_still_run(seed: int) -> None:
    world, home = started(seed)
    world.settings = replace(STATEFUL, on_graceful_timeout="Purge", graceful_eviction_timeout=30)

    world.fault(home, DOWN)
    world.run(200)

    assert [name for name, member in world.members.items() if PLACE in member.objects] == [home]
    (task,) = binding(world, BINDING).spec.graceful_eviction_tasks
    assert task.preserved_label_state == {flink.LABEL: f"{home}-job"}


@pytest.mark.parametrize("moves", [False, True])
def test_a_definition_stays_on_its_cluster_as_long_as_an_object_of_its_kind(moves: bool) -> None:
    """A member from which a definition is taken deletes the objects of its kind, the last copies as well."""
    world = joined("member1", "member2", settings=QUICK)
    apply(world, flink.DEFINITION, ON_ONE)
    world.run(30)
    ref = Ref(kinds.CLUSTER_RESOURCE_BINDING, "", "flinkdeployments.flink.apache.org-customresourcedefinition")
    (home,) = placed(world, ref)
    allowed = "member1, member2" if moves else home
    apply(world, IN_TURN.replace("member1, member2, member3", allowed), flink.APP)
    world.run(60)
    assert where(world) == home

    taint(world, home)
    world.run(120)

    (other,) = placed(world, ref)
    assert other != home
    assert where(world) == (other if moves else home)
    assert PLACE in world.members[where(world)].objects
    waiting = [task.from_cluster for task in binding(world, ref).spec.graceful_eviction_tasks]
    assert waiting == ([] if moves else [home])
    reported = condition(binding(world, ref).status.conditions, EVICTION_STUCK)
    assert reported is not None
    assert (reported.reason, moves) in ((WAITING_WORKLOAD, False), ("NotStuck", True))

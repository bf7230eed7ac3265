"""A workload deleted and made again under its name in the middle of an outage: what lies on a lost cluster of the one
before keeps the new one from nothing, but with purge mode Directly [directly-unreachable], and is not left there
either."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.clusters import fence
from controlplane.engine.decision import Decision, deleting
from controlplane.engine.state import Actor
from tests.simulation.manifests import ANYWHERE, DIVIDED, NGINX, admitted
from tests.simulation.member import DOWN, UP
from tests.simulation.outages import DEPLOYMENT, SERVING, serving, wait, wait_until_not_ready
from tests.simulation.stories import NGINX_BINDING, QUICK, apply, joined, placed, running
from tests.simulation.world import Simulation

SEEDS = range(2)
ANA = Actor("ana")
POLICY = Ref(kinds.PROPAGATION_POLICY, "default", "nginx-propagation")
ASKING = NGINX.replace("image: nginx", "image: nginx\n        resources: {requests: {cpu: 1}}")
DIRECTLY = ANYWHERE.replace("Gracefully", "Directly")


def lost(seed: int, policy: str) -> Simulation:
    """nginx on three members, and one of them is known to be out."""
    world = serving("member1", "member2", "member3", seed=seed, policy=policy)
    world.fault("member2", DOWN)
    wait_until_not_ready(world, "member2")
    return world


def delete(world: Simulation) -> None:
    live = world.store.objects[DEPLOYMENT]
    world.excused["nginx"] = world.now + timedelta(seconds=1)
    world.store.apply([(None, Decision(changes=(deleting(live, now=world.now),)))], by=Actor("ana"))
    wait(world, 1)


def recreate(world: Simulation) -> None:
    """As `kubectl replace --force` does."""
    delete(world)
    second = admitted(NGINX % 4, world.settings, now=world.now)
    world.create(replace(second, metadata=replace(second.metadata, uid="second")))


def reported(world: Simulation, reason: str) -> list[str]:
    return [one.message for one in world.store.list(kinds.EVENT) if one.reason == reason]


@pytest.mark.parametrize("seed", SEEDS)
def test_it_runs_elsewhere_and_the_lost_cluster_is_cleaned_when_it_is_back(seed: int) -> None:
    world = lost(seed, ANYWHERE)

    recreate(world)
    wait(world, 20)
    assert sum(placed(world).values()) == sum(running(world).values()) == 4
    assert "member2" not in placed(world)

    world.fault("member2", UP)
    wait(world, 120)
    assert running(world) == placed(world)
    assert sum(running(world).values()) == 4
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_where_it_is_wanted_on_the_lost_cluster_again_that_takes_its_copy_over(seed: int) -> None:
    world = lost(seed, DIVIDED.replace("weight: 1", "weight: 2"))

    recreate(world)
    wait(world, 20)
    world.fault("member2", UP)
    wait(world, 120)

    assert running(world) == placed(world)
    assert sum(running(world).values()) == 4


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_gets_its_new_content_as_soon_as_it_is_placed_on_the_cluster_that_is_back(seed: int) -> None:
    """The next try to remove the old copy would be half a minute later: the outage was that long."""
    world = serving("member1", "member2", seed=seed)
    for name in ("member1", "member2"):
        world.fault(name, DOWN)
        wait_until_not_ready(world, name)
    recreate(world)
    wait(world, 30)
    assert placed(world) == {}

    for name in ("member1", "member2"):
        world.fault(name, UP)
    while not placed(world):
        wait(world, 0.5)
    wait(world, 1)
    place = ("apps/v1", "Deployment", "default", "nginx")
    asked = {name: member.objects[place].wanted for name, member in world.members.items()}
    assert all(asked[name] >= replicas for name, replicas in placed(world).items())


@pytest.mark.parametrize("seed", SEEDS)
def test_with_directly_it_waits_until_the_cluster_is_confirmed_down(seed: int) -> None:
    world = lost(seed, DIRECTLY)

    recreate(world)
    wait(world, 60)
    assert running(world) == {"member2": 0}, "it is not known what runs there"
    assert "member2 cannot be reached" in reported(world, "CleanupWaiting")[0]

    cluster = world.store.objects[Ref(kinds.CLUSTER, "", "member2")]
    word = fence.fenced(cluster, fence.FenceRequest("I pulled the plug", 600), by="ana", now=world.now)
    assert not world.store.put(word, cluster).lost
    wait(world, 40)

    assert sum(placed(world).values()) == sum(running(world).values()) == 4


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("seconds", [60, 0])
def test_with_directly_it_waits_as_long_as_its_policy_says(seed: int, seconds: int) -> None:
    limit = f"metadata:\n  annotations: {{failover.lifeboat.io/directly-unreachable: After={seconds}}}\n"
    world = lost(seed, DIRECTLY.replace("metadata:\n", limit, 1))
    wait(world, 30)

    recreate(world)
    wait(world, 30)
    assert sum(running(world).values()) == (0 if seconds else 4)
    wait(world, 60)

    assert sum(placed(world).values()) == sum(running(world).values()) == 4
    assert "member2" not in placed(world)
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_binding_that_is_not_recreated_stays_and_says_what_it_waits_for(seed: int) -> None:
    world = lost(seed, ANYWHERE)

    delete(world)
    world.excused["nginx"] = world.now + timedelta(minutes=5)
    wait(world, 70)
    assert world.store.objects[NGINX_BINDING].metadata.deletion_timestamp is not None
    assert reported(world, "CleanupWaiting") == [
        "the copies on member2 are still to be removed; member2 cannot be reached: see their Works"
    ]

    world.fault("member2", UP)
    wait(world, 30)
    assert running(world) == {}
    assert NGINX_BINDING not in world.store.objects


def deleted(world: Simulation, *refs: Ref) -> None:
    """As `kubectl delete --wait=false` does: all at once, and nothing is waited for."""
    for ref in refs:
        world.store.apply([(None, Decision(changes=(deleting(world.store.objects[ref], now=world.now),)))], by=ANA)


def applied(world: Simulation, *manifests: str, uid: str) -> None:
    """As `kubectl apply` does: what is still there, be it Terminating, is not made again."""
    for text in manifests:
        new = admitted(text, world.settings, now=world.now)
        if new.ref not in world.store.objects:
            world.create(replace(new, metadata=replace(new.metadata, uid=f"{uid}-{new.metadata.name}")))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("pause", [0, 1, 5])
def test_what_is_deleted_with_its_policy_and_applied_again_in_an_outage_runs_or_says_why_not(
    seed: int, pause: int
) -> None:
    world = lost(seed, ANYWHERE)
    wait(world, 40)
    assert "member2" not in placed(world)
    world.excused["nginx"] = world.now + timedelta(seconds=40)

    deleted(world, DEPLOYMENT, POLICY)
    wait(world, pause)
    applied(world, ANYWHERE, NGINX % 4, uid="second")
    wait(world, 30)

    if POLICY not in world.store.objects:  # applied while it was still Terminating, as kubectl warns
        assert pause == 0
        assert any("is being deleted: apply it again" in one for one in reported(world, "NoPolicyMatches"))
        applied(world, ANYWHERE, uid="third")
        wait(world, 20)
    assert sum(running(world).values()) == sum(placed(world).values()) == 4
    assert world.failures == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_binding_whose_cleanup_waits_for_a_lost_cluster_holds_no_policy_back(seed: int) -> None:
    world = lost(seed, ANYWHERE)
    world.excused["nginx"] = world.now + timedelta(minutes=5)

    deleted(world, DEPLOYMENT, POLICY)
    wait(world, 5)

    assert world.store.objects[NGINX_BINDING].metadata.deletion_timestamp is not None
    assert POLICY not in world.store.objects


@pytest.mark.parametrize("seed", SEEDS)
def test_a_template_whose_binding_was_deleted_by_hand_holds_no_policy_back(seed: int) -> None:
    world = lost(seed, ANYWHERE)
    world.excused["nginx"] = world.now + timedelta(minutes=5)

    deleted(world, NGINX_BINDING)
    wait(world, 2)
    deleted(world, POLICY)
    wait(world, 5)

    assert world.store.objects[NGINX_BINDING].metadata.deletion_timestamp is not None
    assert POLICY not in world.store.objects
    assert "it runs on no cluster" in reported(world, "NoPolicyMatches")[0]


QUOTA = """
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata:
  name: team
  namespace: default
spec:
  overall: {cpu: "3"}
"""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_quota_without_room_for_the_new_one_leaves_nothing_of_the_old_one_on_a_lost_cluster(seed: int) -> None:
    settings = replace(QUICK, feature_gates={**QUICK.feature_gates, "FederatedQuotaEnforcement": True})
    world = joined("member1", "member2", "member3", seed=seed, settings=settings)
    apply(world, ANYWHERE, ASKING % 4)
    world.run(SERVING)
    assert running(world)["member2"] > 0
    world.fault("member2", DOWN)
    wait_until_not_ready(world, "member2")
    world.excused["nginx"] = world.now + timedelta(minutes=30)

    applied(world, QUOTA, uid="quota")
    deleted(world, DEPLOYMENT)
    wait(world, 1)
    applied(world, ASKING % 4, uid="second")
    wait(world, 20)
    assert placed(world) == {}
    world.fault("member2", UP)
    wait(world, 120)

    assert sum(running(world).values()) == 0
    assert placed(world) == {}
    assert world.failures == []

"""A refuge has room only if the ResourceQuotas of its namespace have it [replica-estimation]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.kinds.rows import FleetNames, PlacementNote
from controlplane.scheduling.placement_explanation import explained
from controlplane.settings import Settings
from tests.simulation.manifests import NGINX
from tests.simulation.stories import NGINX_BINDING, QUICK, apply, joined, placed
from tests.simulation.world import Simulation

LIMITED = replace(QUICK, feature_gates={**QUICK.feature_gates, "ResourceQuotaEstimate": True})
ON_ONE = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: one
  namespace: default
spec:
  resourceSelectors:
    - apiVersion: apps/v1
      kind: Deployment
  placement:
    clusterAffinity:
      clusterNames: [member1, member2, member3]
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference: {dynamicWeight: AvailableReplicas}
    spreadConstraints:
      - spreadByField: cluster
        minGroups: 1
        maxGroups: 1
"""
ASKING = (NGINX % 2).replace("image: nginx", "image: nginx\n        resources: {requests: {cpu: 1}}")


def after_the_outage(settings: Settings) -> Simulation:
    """Return a world in which member1 has failed, and member2 has more nodes than member3 but no quota left."""
    world = joined("member1", "member2", "member3", settings=settings)
    for name, cpu in (("member1", 900), ("member2", 600), ("member3", 300)):
        world.members[name].cpu = cpu
    world.members["member2"].quotas = [
        {
            "metadata": {"namespace": "default", "name": "team"},
            "status": {"hard": {"requests.cpu": "5"}, "used": {"requests.cpu": "4"}},
        }
    ]
    world.run(70)
    apply(world, ON_ONE, ASKING)
    world.run(30)
    assert placed(world) == {"member1": 2}
    world.fault("member1", "down")
    world.run(90)
    return world


@pytest.mark.parametrize(
    ("settings", "refuge", "limit"), [(LIMITED, "member3", "default/team"), (QUICK, "member2", "")], ids=["on", "off"]
)
def test_a_refuge_whose_quota_has_no_room_is_passed_over(settings: Settings, refuge: str, limit: str) -> None:
    world = after_the_outage(settings)

    assert placed(world) == {refuge: 2}
    note: PlacementNote = world.store.rows(PlacementNote, "key", [str(NGINX_BINDING)])[str(NGINX_BINDING)][0]
    names: FleetNames = world.store.rows(FleetNames, "key", [note.fleet])[note.fleet][0]
    member2 = next(one for one in explained(NGINX_BINDING, note, names, {}).clusters if one.name == "member2")
    assert member2.quota == limit
    assert (f"room for 1 more in its ResourceQuota {limit}" in member2.sentence) == bool(limit)

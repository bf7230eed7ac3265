"""What the queue estimates comes true while tier and queue stay [eviction-queue]: with workers that interleave, and
on its own."""

from __future__ import annotations

from statistics import median, quantiles

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.eviction.rate import take_tokens
from controlplane.insight.forecast import forecast
from controlplane.kinds.cluster import Taint
from controlplane.kinds.rows import ENDED, EVICTED, QUEUED, Eviction
from tests.simulation.manifests import NGINX
from tests.simulation.stories import QUICK, apply, joined
from tests.simulation.world import Simulation

SLOW = replace(QUICK, resource_eviction_rate=0.5, secondary_resource_eviction_rate=0.1)
ONE = """
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
      clusterNames: [member1, member2]
    spreadConstraints:
      - spreadByField: cluster
        minGroups: 1
        maxGroups: 1
"""


def evictions(world: Simulation, *states: str) -> list[Eviction]:
    return [row for found in world.store.rows(Eviction, "state", states).values() for row in found if row.cluster]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("count", "scope"), [(12, "Fleet"), (30, "Fleet"), (12, "Cluster")])
def test_estimates_come_true_while_tier_and_queue_stay(seed: int, count: int, scope: str) -> None:
    settings = replace(SLOW, eviction=replace(SLOW.eviction, bucket_scope=scope))
    world = joined("member1", "member2", "member3", seed=seed, settings=settings)
    apply(world, ONE, *((NGINX % 1).replace("nginx", f"web{n:02}") for n in range(count)))
    world.run(60)
    homes = [one.spec.clusters[0].name for one in world.store.list(kinds.RESOURCE_BINDING)]
    lost = max(set(homes), key=homes.count)

    ref = Ref(kinds.CLUSTER, "", lost)
    old = world.store.get([ref])[ref]
    assert not world.store.put(old.with_spec(taints=(Taint("gone", "NoExecute", time_added=world.now),)), old).lost
    world.run(61)
    asked_at, waiting = world.now, evictions(world, QUEUED)
    at = asked_at.timestamp()
    tokens = {name: take_tokens(one, 0, rate=0.5, at=at).bucket.tokens for name, one in world.buckets.items()}
    ageing = settings.eviction.ageing_seconds
    reported = forecast(waiting, rate=0.5, ageing_seconds=ageing, scope=scope, tokens=tokens, now=asked_at)
    world.run(90 + 2 * count)

    left = {row.key: row.ended_at for row in evictions(world, *ENDED) if row.state == EVICTED}
    errors = []
    for row in waiting:
        at, real = reported[row.key].at, left[row.key]
        assert at is not None
        assert real is not None
        errors.append(abs((at - real).total_seconds()) / (real - asked_at).total_seconds())
    assert len(waiting) >= 8
    assert median(errors) <= 0.10
    assert quantiles(errors, n=20, method="inclusive")[-1] <= 0.25

"""Five clusters with room for everything, and evictions fast enough not to be waited for."""

from __future__ import annotations

from msgspec.structs import replace

from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Placement, Toleration
from controlplane.settings import Settings
from tests.builders.objects import cluster
from tests.builders.placements import duplicated
from tests.core.fleet_story import FAILOVER, Story

FAST = replace(FAILOVER, resource_eviction_rate=1000.0, secondary_resource_eviction_rate=100.0)
ANYWHERE = duplicated(least=1, most=1)
CLUSTERS = tuple(f"member{n}" for n in range(1, 6))


def fleet(*bindings: Binding, settings: Settings = FAST) -> Story:
    return Story(*(cluster(name) for name in CLUSTERS), *bindings, settings=settings)


def tolerating(*tolerations: Toleration) -> Placement:
    return duplicated(least=1, most=1, tolerations=tolerations)


def gone(story: Story, cluster_name: str = "member1") -> list[str]:
    """Return the workloads that are no longer on a cluster."""
    names = [ref.name for ref in story.store.objects if ref.kind.endswith("ResourceBinding")]
    return [
        one.removesuffix("-deployment") for one in names if cluster_name not in story.placed(one[: -len("-deployment")])
    ]

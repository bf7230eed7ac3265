"""Makes a realistic fleet within seconds: clusters with a full status, namespaces, policies and workloads.

The clusters have no endpoint, so they are not probed, no Work is applied to them, and their status does not change.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Condition, Object, ObjectMeta, to_seconds
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor, Store
from controlplane.estimate.resource_models import DEFAULT_MODELS
from controlplane.kinds.cluster import (
    AllocatableModeling,
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    NodeSummary,
    ResourceSummary,
)
from controlplane.kinds.policy import (
    DIVIDED,
    DUPLICATED,
    ClusterAffinity,
    ClusterPreferences,
    Placement,
    Policy,
    PropagationSpec,
    ReplicaSchedulingStrategy,
    ResourceSelector,
    SpreadConstraint,
    StaticClusterWeight,
)
from controlplane.kinds.template import Template

REGIONS = ("eu-central", "eu-west", "us-east", "us-west", "ap-south")
PROVIDERS = ("aws", "azure", "gcp", "metal")
PER_NAMESPACE = 200
CHUNK = 500


class Fleet:
    """Makes the objects of a fleet. The same seed gives the same fleet. `prefix` begins all names."""

    def __init__(self, *, clusters: int, bindings: int, now: datetime, seed: int = 1, prefix: str = "fleet") -> None:
        self.chance = random.Random(seed)
        self.cluster_count = clusters
        self.binding_count = bindings
        self.now = to_seconds(now)
        self.prefix = prefix

    def objects(self) -> Iterator[Object]:
        """Yield all objects in the order in which they have to be created."""
        yield from (self.cluster(number) for number in range(self.cluster_count))
        yield from (self._namespace(number) for number in range(-(-self.binding_count // PER_NAMESPACE)))
        yield from self.policies()
        yield from (self.deployment(number) for number in range(self.binding_count))

    def _meta(self, name: str, *, namespace: str = "", labels: dict[str, str] | None = None) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace=namespace,
            uid=str(UUID(int=self.chance.getrandbits(128), version=4)),
            generation=1,
            creation_timestamp=self.now,
            labels=labels or {},
        )

    def cluster(self, number: int) -> Cluster:
        """Return a cluster with 68 API resources, the nine grades, and 3 to 100 nodes."""
        nodes = self.chance.choice((3, 5, 9, 20, 50, 100))
        region, provider = REGIONS[number % len(REGIONS)], PROVIDERS[number % len(PROVIDERS)]
        taken = self.chance.uniform(0.2, 0.7)
        counts = [0] * len(DEFAULT_MODELS)
        for _ in range(nodes):
            counts[self.chance.choice((1, 2, 2, 3, 3, 4, 5))] += 1
        summary = ResourceSummary(
            allocatable={"cpu": str(16 * nodes), "memory": f"{64 * nodes}Gi", "pods": str(110 * nodes)},
            allocated={
                "cpu": str(int(16 * nodes * taken)),
                "memory": f"{int(64 * nodes * taken)}Gi",
                "pods": str(int(110 * nodes * taken)),
            },
            allocatable_modelings=tuple(AllocatableModeling(grade, count) for grade, count in enumerate(counts)),
        )
        ready = Condition("Ready", "True", "ClusterReady", "cluster is healthy and ready to accept workloads", self.now)
        return Cluster(
            api_version="cluster.karmada.io/v1alpha1",
            kind="Cluster",
            metadata=self._meta(
                f"{self.prefix}-{number:04d}", labels={"region": region, "stage": "prod" if number % 5 else "staging"}
            ),
            spec=ClusterSpec(
                region=region, provider=provider, zones=(f"{region}-{number % 3}",), resource_models=DEFAULT_MODELS
            ),
            status=ClusterStatus(
                kubernetes_version="v1.32.4",
                api_enablements=_apis(),
                conditions=(ready, replace(ready, type="CompleteAPIEnablements", reason="Complete")),
                node_summary=NodeSummary(nodes, nodes),
                resource_summary=summary,
            ),
        )

    def _namespace(self, number: int) -> Template:
        return Template("v1", "Namespace", self._meta(f"{self.prefix}-{number}"), {"spec": {}})

    def policies(self) -> Iterator[Policy]:
        """Yield one ClusterPropagationPolicy for each placement. It selects Deployments by label."""
        for name, placement in placements(self.prefix, self.cluster_count).items():
            yield Policy(
                api_version="policy.karmada.io/v1alpha1",
                kind="ClusterPropagationPolicy",
                metadata=self._meta(f"{self.prefix}-{name}"),
                spec=PropagationSpec(
                    resource_selectors=(
                        ResourceSelector(
                            "apps/v1", "Deployment", label_selector=LabelSelector({"fleet": self.prefix, "way": name})
                        ),
                    ),
                    placement=placement,
                ),
            )

    def deployment(self, number: int) -> Template:
        """Return a Deployment with 1 to 10 replicas and with resource requests."""
        name, namespace = f"app-{number}", f"{self.prefix}-{number // PER_NAMESPACE}"
        ways = tuple(placements(self.prefix, self.cluster_count))
        labels = {"app": name, "fleet": self.prefix, "way": ways[number % len(ways)]}
        container = {
            "name": "main",
            "image": f"registry.example/{name}:1.4.{number % 7}",
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": f"{100 * (1 + number % 5)}m", "memory": f"{128 * (1 + number % 4)}Mi"}},
        }
        spec = {
            "replicas": 1 + number % 10,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        }
        return Template("apps/v1", "Deployment", self._meta(name, namespace=namespace, labels=labels), {"spec": spec})


def placements(prefix: str, clusters: int) -> dict[str, Placement]:
    """Return the placements of the fleet by name, one for each way to divide replicas."""
    some = ClusterAffinity(cluster_names=tuple(f"{prefix}-{number:04d}" for number in range(min(clusters, 10))))
    weights = tuple(
        StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), 1 + place)
        for place, name in enumerate(some.cluster_names[:3])
    )
    dynamic = ClusterPreferences(dynamic_weight="AvailableReplicas")
    three = (SpreadConstraint(spread_by_field="cluster", min_groups=3, max_groups=3),)
    regions = (
        SpreadConstraint(spread_by_field="region", min_groups=2, max_groups=3),
        SpreadConstraint(spread_by_field="cluster", min_groups=3, max_groups=6),
    )

    def divided(preference: str, weight: ClusterPreferences | None = None) -> ReplicaSchedulingStrategy:
        return ReplicaSchedulingStrategy(DIVIDED, preference, weight)

    return {
        "duplicated": Placement(spread_constraints=three, replica_scheduling=ReplicaSchedulingStrategy(DUPLICATED)),
        "static": Placement(some, replica_scheduling=divided("Weighted", ClusterPreferences(weights))),
        "dynamic": Placement(spread_constraints=three, replica_scheduling=divided("Weighted", dynamic)),
        "aggregated": Placement(spread_constraints=three, replica_scheduling=divided("Aggregated")),
        "regions": Placement(spread_constraints=regions, replica_scheduling=divided("Weighted", dynamic)),
    }


def _apis() -> tuple[APIEnablement, ...]:
    """Return the 68 API resources of a cluster without custom resources."""
    groups: dict[str, list[APIResource]] = {}
    served = [kind.resource for kind in kinds.KINDS if not kind.resource.group.endswith(("karmada.io", "lifeboat.io"))]
    for resource in served[:68]:
        groups.setdefault(resource.api_version, []).append(APIResource(resource.plural, resource.kind))
    return tuple(APIEnablement(version, tuple(found)) for version, found in sorted(groups.items()))


def store_all(store: Store, objects: Sequence[Object], *, by: str) -> int:
    """Create objects in chunks. Objects that exist are not changed. Returns how many were created."""
    made = 0
    for start in range(0, len(objects), CHUNK):
        chunk = objects[start : start + CHUNK]
        outcomes = store.apply(
            [(None, Decision(changes=(Put(item, None),), reason="Fleet")) for item in chunk], by=Actor(by)
        )
        made += sum(1 for outcome in outcomes if not outcome.lost)
    return made

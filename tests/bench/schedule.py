"""schedule: decisions per second in memory on one core, ledger and explanation included."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import perf_counter

from controlplane.apimachinery.meta import Condition, ObjectMeta
from controlplane.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from controlplane.estimate.resource_models import DEFAULT_MODELS
from controlplane.kinds.binding import (
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
)
from controlplane.kinds.cluster import (
    AllocatableModeling,
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    ResourceSummary,
    Taint,
)
from controlplane.kinds.policy import (
    ClusterAffinity,
    ClusterPreferences,
    Placement,
    ReplicaSchedulingStrategy,
    SpreadConstraint,
    StaticClusterWeight,
)
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.note import Notes
from controlplane.settings import Settings
from tests.bench.figure import Figure
from tests.builders.objects import bound

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = ("duplicated", "static", "dynamic", "aggregated", "region")
DYNAMIC = ReplicaSchedulingStrategy("Divided", "Weighted", ClusterPreferences(dynamic_weight="AvailableReplicas"))
AGGREGATED = ReplicaSchedulingStrategy("Divided", "Aggregated")
GROUPS = ("apps/v1", "batch/v1", "v1", "networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1")
APIS = tuple(
    APIEnablement(
        group,
        tuple(
            APIResource(f"{group[:4]}{number}s", "Deployment" if (group, number) == ("apps/v1", 0) else f"Kind{number}")
            for number in range(12 if place < 2 else 11)
        ),
    )
    for place, group in enumerate(GROUPS)
)


def clusters(count: int, *, nodes: int | None = None, seed: int = 1) -> list[Cluster]:
    """Return clusters as they report: 68 API resources, nine grades, 3 to 100 nodes, labels, regions, a few taints."""
    chance = random.Random(seed)
    return [_cluster(number, nodes or chance.randint(3, 100), chance) for number in range(count)]


def _cluster(number: int, nodes: int, chance: random.Random) -> Cluster:
    grades = [chance.randrange(9) for _ in range(nodes)]
    cpu = sum(2**grade for grade in grades) * 2
    tainted = chance.random() < 0.05
    region = f"region-{number % 8}"
    return Cluster(
        "cluster.karmada.io/v1alpha1",
        "Cluster",
        ObjectMeta(
            name=f"member-{number:05}",
            uid=f"uid-{number}",
            resource_version=str(number),
            labels={"tier": f"t{number % 4}", "env": f"e{number % 3}", "ring": f"r{number % 10}"},
        ),
        ClusterSpec(
            region=region,
            provider=f"p{number % 3}",
            zones=(f"{region}-a",),
            resource_models=DEFAULT_MODELS,
            taints=(Taint("cluster.karmada.io/not-ready", "NoSchedule"),) if tainted else (),
        ),
        ClusterStatus(
            kubernetes_version="v1.31.2",
            api_enablements=APIS,
            conditions=(Condition("Ready", "True"), Condition("CompleteAPIEnablements", "True")),
            resource_summary=ResourceSummary(
                allocatable={"cpu": str(cpu), "memory": f"{cpu * 4}Gi", "pods": str(nodes * 110)},
                allocated={"cpu": f"{cpu * 300}m", "memory": f"{cpu}Gi", "pods": str(nodes * 20)},
                allocating={"cpu": "500m", "memory": "1Gi", "pods": "2"},
                allocatable_modelings=tuple(AllocatableModeling(grade, grades.count(grade)) for grade in range(9)),
            ),
        ),
    )


def placement(kind: str, names: Sequence[str], chance: random.Random) -> Placement:
    """Return a placement of a kind that hardly any other one equals."""
    affinity = ClusterAffinity(
        label_selector=LabelSelector(
            {"env": f"e{chance.randrange(3)}"} if chance.random() < 0.5 else {},
            (LabelSelectorRequirement("ring", "NotIn", (f"r{chance.randrange(10)}",)),),
        ),
        exclude=tuple(chance.sample(names, 3)),
    )
    if kind == "static":
        chosen = chance.sample(names, 4)
        rules = tuple(
            StaticClusterWeight(ClusterAffinity(cluster_names=(name,)), chance.randint(1, 9)) for name in chosen
        )
        how: ReplicaSchedulingStrategy | None = ReplicaSchedulingStrategy(
            "Divided", "Weighted", ClusterPreferences(rules)
        )
        return Placement(affinity, replica_scheduling=how)
    if kind == "region":
        spread = (SpreadConstraint("region", "", 2, 3), SpreadConstraint("cluster", "", 2, 6))
        return Placement(affinity, spread_constraints=spread, replica_scheduling=DYNAMIC)
    return Placement(affinity, replica_scheduling={"dynamic": DYNAMIC, "aggregated": AGGREGATED}.get(kind))


def items(
    count: int, kinds: Sequence[str], names: Sequence[str], *, shared: bool, replicas: int = 0, seed: int = 2
) -> list[Item]:
    """Return bindings to place: all different, or sharing placement and request per kind."""
    chance = random.Random(seed)
    common = {kind: placement(kind, names, chance) for kind in kinds}
    found = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        cpu = "250m" if shared else f"{chance.randint(50, 2000)}m"
        memory = "512Mi" if shared else f"{chance.randint(64, 4096)}Mi"
        uid = f"{number:08}-5dd7-4c5e-9a54-{chance.randrange(16**12):012x}"
        spec = ResourceBindingSpec(
            ObjectReference("apps/v1", "Deployment", f"web-{number}", "default", uid=uid),
            replicas=replicas or (5 if shared else chance.randint(1, 20)),
            replica_requirements=ReplicaRequirements(resource_request={"cpu": cpu, "memory": memory}),
            placement=common[kind] if shared else placement(kind, names, chance),
        )
        found.append(Item(spec, ResourceBindingStatus()))
    return found


def seconds(members: Sequence[Cluster], wanted: Sequence[Item], *, rounds: int = 3) -> float:
    """Return how long placing all items and noting why takes, the best of some rounds, each on a fresh fleet and
    ledger."""
    settings = Settings()
    subjects = [bound(one.spec, name=f"web-{number}") for number, one in enumerate(wanted)]
    best = float("inf")
    for _ in range(rounds):
        fleet = Fleet.of(members, settings=settings)
        batch, notes = Batch(fleet, Ledger(fleet), settings), Notes(fleet)
        begin = perf_counter()
        for subject, item in zip(subjects, wanted, strict=True):
            _, verdict = batch.place(item)
            notes.note(subject, verdict, trigger="bench", before=None, now=NOW)
        best = min(best, perf_counter() - begin)
    return best


def run() -> list[Figure]:
    figures = []
    for count, amount in ((100, 2000), (1000, 1000), (5000, 400)):
        members = clusters(count)
        names = [one.metadata.name for one in members]
        mix = items(amount, KINDS, names, shared=False)
        rate = amount / seconds(members, mix)
        figures.append(Figure("schedule.different", rate, "per s", amount, f"{count} clusters, mix"))
        for kind in KINDS:
            one = items(amount // 2, (kind,), names, shared=False)
            rate = len(one) / seconds(members, one)
            figures.append(Figure(f"schedule.different.{kind}", rate, "per s", len(one), f"{count} clusters"))
        figures.append(_fleet(members))
    members = clusters(100)
    names = [one.metadata.name for one in members]
    for kind in ("duplicated", "static", "dynamic", "aggregated", "region"):
        one = items(4000, (kind,), names, shared=True)
        rate = len(one) / seconds(members, one)
        figures.append(Figure(f"schedule.shared.{kind}", rate, "per s", len(one), "100 clusters"))
    figures.append(_ratio("nodes 100:3", lambda many: (clusters(100, nodes=100 if many else 3), 5)))
    figures.append(_ratio("replicas 10,000:10", lambda many: (clusters(100, nodes=100), 10_000 if many else 10)))
    return figures


def _fleet(members: Sequence[Cluster]) -> Figure:
    settings = Settings()
    begin = perf_counter()
    Fleet.of(members, settings=settings)
    took = (perf_counter() - begin) * 1000
    return Figure("schedule.fleet", took, "ms", 1, f"{len(members)} clusters read into arrays")


def _ratio(name: str, case: Callable[[bool], tuple[list[Cluster], int]]) -> Figure:
    costs = []
    for many in (True, False):
        members, replicas = case(many)
        wanted = items(500, ("dynamic",), [one.metadata.name for one in members], shared=False, replicas=replicas)
        costs.append(seconds(members, wanted, rounds=5))
    return Figure("schedule.ratio", costs[0] / costs[1], "×", 500, name)

"""Cases of the controllers that watch clusters and let workloads leave them."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Object, ObjectMeta, Ref
from controlplane.apimachinery.names import (
    CLUSTER_FINALIZER,
    CLUSTER_NAMESPACE,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    RECEIVED_ANNOTATION,
    UNSCHEDULABLE_TAINT,
)
from controlplane.controllers.application_failover import PARTS
from controlplane.controllers.drains import PAGE
from controlplane.controllers.eviction_pending import QUEUED_WITHIN
from controlplane.controllers.readiness import PAGE as PAGE_OF_ROUND
from controlplane.controllers.readiness import ROUND
from controlplane.controllers.reads.fleet_state import FLEET
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    GracefulEvictionTask,
    TargetCluster,
    origin,
)
from controlplane.kinds.binding.colocation_index import application
from controlplane.kinds.cluster import PULL, Taint
from controlplane.kinds.drain import RUNNING, Drain, DrainSpec
from controlplane.kinds.drill import DRAIN as DRAIN_MODE
from controlplane.kinds.drill import SIMULATED, Drill, DrillSpec
from controlplane.kinds.failback import Failback, FailbackSpec
from controlplane.kinds.policy import (
    GRACEFULLY,
    ApplicationFailoverBehavior,
    DecisionConditions,
    FailoverBehavior,
)
from controlplane.kinds.rows import EVICTED, Observation, ReadinessRound, Row, UnhealthyCopies
from tests.apps.batches.stored import (
    AT_ONCE,
    LONG_AGO,
    LOST,
    OPEN,
    Case,
    bound,
    clusters,
    deployment,
    federated_quota,
    many,
    parts,
    plain,
    queued,
    refs,
    work_of,
)
from tests.builders.objects import START, not_ready_policy
from tests.builders.placements import duplicated

RENEWED = {RECEIVED_ANNOTATION: LONG_AGO.isoformat()}


def cluster_status(size: int) -> Case:
    found = clusters(*many(size), ready="", established=False)
    seen = [Observation(name, "True", "ClusterReady", since=LONG_AGO, observed_at=START) for name in many(size)]
    return Case([*found, *seen], refs(found), size)


def pulled(size: int) -> Case:
    """Members whose agents have renewed their Leases."""
    found = [
        replace(one, spec=replace(one.spec, sync_mode=PULL))
        for one in clusters(*many(size), ready="", established=False)
    ]
    leases = [
        replace(plain("Lease", name, CLUSTER_NAMESPACE, annotations=RENEWED), api_version="coordination.k8s.io/v1")
        for name in many(size)
    ]
    return Case([*found, *leases], refs(found), 2 * size)


def fleet(size: int) -> Case:
    return Case(clusters(*many(size)), [FLEET], 1)


def cluster_taints(size: int) -> Case:
    found = clusters(*many(size), ready="False")
    away = not_ready_policy("NoSchedule", name="away", key="away")
    return Case([OPEN, away, *found, *clusters("well")], refs(found), size)


def eviction_queue(size: int) -> Case:
    found = bound(size, lost=2)
    return Case([*LOST, *clusters("spare"), OPEN, *found], refs(found), size)


def evictions(size: int) -> Case:
    found = bound(size, lost=2)
    rows = [queued(one) for one in found]
    return Case([*LOST, *clusters("spare"), OPEN, *found, *rows], [FLEET], 2 * min(size, AT_ONCE), -(-size // AT_ONCE))


def evictions_of_applications(size: int) -> Case:
    found = parts(bound(size, lost=2))
    rows = [queued(one) for one in found]
    return Case([*LOST, *clusters("spare"), OPEN, *found, *rows], [FLEET], 2 * min(size, AT_ONCE), -(-size // AT_ONCE))


def graceful_eviction(size: int) -> Case:
    task = GracefulEvictionTask("lost", reason="TaintUntolerated", replicas=2, creation_timestamp=LONG_AGO)
    found = [one.with_spec(graceful_eviction_tasks=(task,)) for one in bound(size, spare=2)]
    seen = Observation("spare", "True", observed_at=START)
    return Case([*LOST, *clusters("spare"), seen, *found], refs(found), size)


def graceful_eviction_restoring(size: int) -> Case:
    """Copies become targets again, because their cluster recovered. The quotas of their namespace are asked."""
    task = GracefulEvictionTask("spare", reason="TaintUntolerated", replicas=2, creation_timestamp=LONG_AGO)
    failed = (Condition(SCHEDULED, "False", "NoClusterFit", observed_generation=9),)
    found = [one.with_spec(clusters=(), graceful_eviction_tasks=(task,)) for one in bound(size, spare=2)]
    found = [one.with_status(conditions=failed) for one in found]
    return Case([*clusters("spare"), federated_quota("team"), *found], refs(found), size)


def graceful_eviction_of_services(size: int) -> Case:
    """Services whose Deployments are still on the cluster both leave."""
    task = GracefulEvictionTask("lost", reason="TaintUntolerated", creation_timestamp=LONG_AGO)
    stored: list[Object | Row] = [*LOST, *clusters("spare"), Observation("spare", "True", observed_at=START)]
    keys = []
    for one in bound(size, spare=2):
        name = one.spec.resource.name
        pods = {"metadata": {"labels": {"app": name}}, "spec": {}}
        resource = replace(one.spec.resource, api_version="v1", kind="Service")
        spec = replace(one.spec, resource=resource, graceful_eviction_tasks=(task,))
        of_it = replace(one, spec=spec).with_meta(name=f"{name}-service", uid=f"uid-{name}-service")
        stored += [
            one.with_spec(clusters=(TargetCluster("lost", 2),)),
            replace(deployment(name), content={"spec": {"replicas": 2, "template": pods}}),
            replace(plain("Service", name, "default"), content={"spec": {"selector": {"app": name}}}),
            of_it,
        ]
        keys.append(of_it.ref)
    return Case(stored, keys, size)


def application_failover(size: int) -> Case:
    asked = FailoverBehavior(application=ApplicationFailoverBehavior(DecisionConditions(60), GRACEFULLY, 120))
    ill = AggregatedStatusItem("spare", applied=True, health="Unhealthy")
    found = [
        one.with_spec(failover=asked, propagate_deps=True, placement=duplicated(least=1, most=1))
        .with_status(aggregated_status=(ill,))
        .with_meta(annotations={PROPAGATION_POLICY_NAME_ANNOTATION: "online"})
        for one in bound(size, spare=2)
    ]
    rows = [UnhealthyCopies(str(one.ref), {"spare": LONG_AGO}) for one in found]
    return Case([*clusters("spare", "other"), *found, *rows], refs(found), 2 * size)


def eviction_pending(size: int) -> Case:
    found = bound(size, lost=2)
    return Case([*found, *(queued(one) for one in found)], refs(found), size)


def eviction_records(size: int) -> Case:
    well = clusters("lost")
    over = [queued(one, state=EVICTED, ended_at=START) for one in bound(size)]
    return Case([*well, *over], refs(well), size)


def unjoin(size: int) -> Case:
    """A cluster that is being deleted, with Works that have no owner any more."""
    leaving = {"deletion_timestamp": START, "finalizers": (CLUSTER_FINALIZER,)}
    going = [one.with_meta(**leaving) for one in clusters("gone")]
    works = [work_of(one, "gone") for one in bound(size)]
    return Case([*going, *works], refs(going), min(size, AT_ONCE), -(-size // AT_ONCE))


def to_clusters(size: int) -> Case:
    return Case(clusters(*many(size)), [FLEET], size)


def to_placed(size: int) -> Case:
    return Case([*LOST, OPEN, *bound(size, lost=2)], refs(LOST), size)


def to_all_placed(size: int) -> Case:
    return to_placed(size)._replace(keys=[FLEET])


def to_queued_together(size: int) -> Case:
    found = bound(size, lost=2)
    rows = [queued(one, queued_at=START) for one in found]
    return Case([*found, *rows], [Ref(QUEUED_WITHIN, "", START.isoformat())], size)


def to_leaving(size: int) -> Case:
    return Case([*LOST, *(one for one in graceful_eviction(size).stored if isinstance(one, Binding))], refs(LOST), size)


def to_all_leaving(size: int) -> Case:
    return to_leaving(size)._replace(keys=[FLEET])


def to_parts(size: int) -> Case:
    found = [one for one in application_failover(size).stored if isinstance(one, Binding)]
    return Case(found, [Ref(PARTS, "", application(found[0]))], size)


def readiness(size: int) -> Case:
    found = bound(size, spare=2)
    return Case([*clusters("spare", "other"), OPEN, *found], refs(found), size)


def readiness_of_all(size: int) -> Case:
    """A round that has begun checks its first page."""
    begun = ReadinessRound(ROUND, digest="before", began_at=LONG_AGO)
    first, looks = min(size, PAGE_OF_ROUND), size // PAGE_OF_ROUND + 1
    return Case([*clusters("spare", "other"), OPEN, begun, *bound(size, spare=2)], [FLEET], first, looks)


def drain(name: str) -> Drain:
    meta = ObjectMeta(name=name, uid=f"uid-drain-{name}", generation=1, creation_timestamp=START)
    made = Drain("failover.lifeboat.io/v1alpha1", "Drain", meta, DrainSpec(name, rate=1e6))
    return made.with_status(phase=RUNNING, tokens=1e6, counted_at=START)


def drains(size: int) -> Case:
    cordoned = clusters("full", taints=[Taint(UNSCHEDULABLE_TAINT, "NoSchedule", time_added=START)])
    asked, looks = drain("full"), -(-size // PAGE)
    return Case([*cordoned, *clusters("spare"), asked, *bound(size, full=2)], [asked.ref], min(size, PAGE), looks)


def drill(mode: str) -> Drill:
    meta = ObjectMeta(name="gameday", uid="uid-gameday", generation=1, creation_timestamp=START)
    return Drill("failover.lifeboat.io/v1alpha1", "Drill", meta, DrillSpec(mode, ("full",)))


def drills(size: int) -> Case:
    """A simulated drill is over at once. It writes one report, whatever the number of workloads."""
    asked = drill(SIMULATED)
    return Case([*clusters("full", "spare"), asked, *bound(size, full=2)], [asked.ref], 1)


def drills_by_draining(size: int) -> Case:
    """A drill of mode Drain begins: it creates a Drain and counts the copies of all workloads."""
    asked = drill(DRAIN_MODE)
    return Case([*clusters("full", "spare"), asked, *bound(size, full=2)], [asked.ref], 2)


def failbacks(size: int) -> Case:
    """Everything that has left a cluster goes back to it, a hundred at once."""
    then = bound(size, home=2)
    away = [with_task(one, "home", mode=GRACEFULLY, reason="", producer="", message="", now=LONG_AGO) for one in then]
    away = [origin.with_departures(new, old, now=LONG_AGO) for new, old in zip(away, then, strict=True)]
    away = [one.with_spec(clusters=(TargetCluster("spare", 2),), graceful_eviction_tasks=()) for one in away]
    meta = ObjectMeta(name="back", uid="uid-back", generation=1, creation_timestamp=START)
    asked = Failback("failover.lifeboat.io/v1alpha1", "Failback", meta, FailbackSpec("home", rate=1e6, at_once=100))
    asked = asked.with_status(phase=RUNNING, tokens=1e6, counted_at=START)
    return Case([*clusters("home", "spare"), federated_quota("team"), asked, *away], [asked.ref], min(size, 100))


BATCHES: dict[str, Callable[[int], Case]] = {
    "cluster_status": cluster_status,
    "cluster_status of Pull members": pulled,
    "fleet": fleet,
    "cluster_taints": cluster_taints,
    "eviction_queue": eviction_queue,
    "evictions": evictions,
    "evictions of applications": evictions_of_applications,
    "graceful_eviction": graceful_eviction,
    "graceful_eviction of recovered clusters": graceful_eviction_restoring,
    "graceful_eviction of Services": graceful_eviction_of_services,
    "drains": drains,
    "drills": drills,
    "drills by draining": drills_by_draining,
    "failbacks": failbacks,
    "application_failover": application_failover,
    "eviction_pending": eviction_pending,
    "eviction_records": eviction_records,
    "unjoin": unjoin,
    "readiness": readiness,
    "readiness of all": readiness_of_all,
}

FAN_OUTS: dict[str, Callable[[int], Case]] = {
    "cluster_status": to_clusters,
    "cluster_taints": to_clusters,
    "collection": to_clusters,
    "probes": to_clusters,
    "eviction_queue": to_placed,
    "eviction_queue of the fleet": to_all_placed,
    "eviction_pending": to_queued_together,
    "eviction_pending of the fleet": to_all_placed,
    "graceful_eviction": to_leaving,
    "graceful_eviction of the fleet": to_all_leaving,
    "application_failover": to_parts,
}

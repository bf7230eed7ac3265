"""Typed objects: clusters, bindings, policies, Works and rows of the eviction queue, with few words at the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.apimachinery.meta import Condition, Object, ObjectMeta, Ref
from controlplane.apimachinery.names import PROPAGATION_POLICY_FINALIZER, execution_namespace
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import (
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    BindingPriority,
    GracefulEvictionTask,
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.kinds.cluster import (
    APIEnablement,
    APIResource,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    ResourceModel,
    ResourceSummary,
    Taint,
)
from controlplane.kinds.policy import (
    GRACEFULLY,
    ClusterFailoverBehavior,
    FailoverBehavior,
    Placement,
    Policy,
    PropagationSpec,
    ResourceSelector,
)
from controlplane.kinds.rows import Eviction, eviction_key
from controlplane.kinds.taint_policy import ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, TaintToAdd
from controlplane.kinds.work import APPLIED, Work, Workload, WorkSpec, WorkStatus
from controlplane.propagation.works import BINDING_ANNOTATION

START = datetime(2026, 1, 1, tzinfo=UTC)
APPS = (APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),)
DEPLOYMENTS = ResourceSelector("apps/v1", "Deployment")


def meta(name: str, namespace: str = "", *, at: datetime = START, **fields: Any) -> ObjectMeta:
    """Return the metadata of a new object: a uid made of its namespace and name, generation 1, created at `at`."""
    uid = f"uid-{namespace}-{name}" if namespace else f"uid-{name}"
    return ObjectMeta(
        name=name, namespace=namespace, **{"uid": uid, "generation": 1, "creation_timestamp": at, **fields}
    )


def cluster(
    name: str,
    *,
    ready: str = "True",
    established: bool = True,
    at: datetime = START,
    room: int = 1000,
    summary: ResourceSummary | None = None,
    reported: bool = True,
    models: Sequence[ResourceModel] = (),
    region: str = "",
    zones: Sequence[str] = (),
    labels: Mapping[str, str] = {},
    taints: Sequence[Taint] = (),
    apis: Sequence[APIEnablement] = APPS,
) -> Cluster:
    """Return a cluster that joined at START.

    `ready`: the status of its condition Ready since `at`; "": it has no such condition.
    `established`: it was Ready before.
    `room`: how many pods and how many cpu are free, unless `summary` has every figure.
    `reported` False: the cluster has no summary.
    """
    conditions: tuple[Condition, ...] = (Condition("Ready", ready, last_transition_time=at),) if ready else ()
    if established:
        conditions += (Condition("Established", "True", last_transition_time=START),)
    free = summary or ResourceSummary(allocatable={"pods": str(room), "cpu": str(room)})
    return Cluster(
        api_version="cluster.karmada.io/v1alpha1",
        kind="Cluster",
        metadata=meta(name, labels=dict(labels)),
        spec=ClusterSpec(region=region, zones=tuple(zones), taints=tuple(taints), resource_models=tuple(models)),
        status=ClusterStatus(
            conditions=conditions, api_enablements=tuple(apis), resource_summary=free if reported else None
        ),
    )


def no_execute(key: str = "gone", *, at: datetime = START) -> Taint:
    """Return a NoExecute taint."""
    return Taint(key, "NoExecute", time_added=at)


def binding(
    name: str,
    placement: Placement | None,
    *,
    on: Mapping[str, int] = {},
    replicas: int = 2,
    cpu: str = "",
    failover: ClusterFailoverBehavior | None = None,
    priority: int = 0,
    scheduled: bool = True,
) -> Binding:
    """Return the binding `<name>-deployment` of the Deployment `name`.

    `on`: replicas by cluster. `cpu`: what a replica requests; "": nothing.
    `scheduled` False: the scheduler has not looked at it yet; otherwise it is healthy on every cluster of `on`.
    """
    made = Binding(
        api_version="work.karmada.io/v1alpha2",
        kind="ResourceBinding",
        metadata=meta(f"{name}-deployment", "default", uid=f"uid-{name}"),
        spec=ResourceBindingSpec(
            resource=ObjectReference("apps/v1", "Deployment", name, "default", uid=f"template-{name}"),
            replicas=replicas,
            replica_requirements=ReplicaRequirements(resource_request={"cpu": cpu} if cpu else {}),
            clusters=tuple(TargetCluster(*pair) for pair in on.items()),
            placement=placement,
            failover=None if failover is None else FailoverBehavior(cluster=failover),
            schedule_priority=BindingPriority(priority) if priority else None,
        ),
    )
    if not scheduled:
        return made
    return made.with_status(
        scheduler_observed_generation=1,
        conditions=(Condition(SCHEDULED, "True", "Success", last_transition_time=START),),
        aggregated_status=tuple(AggregatedStatusItem(target, applied=True, health="Healthy") for target in on),
    )


def leaving(name: str, mode: str = GRACEFULLY, **more: Any) -> GracefulEvictionTask:
    """Return a graceful eviction task that leaves a cluster since START."""
    return GracefulEvictionTask(name, mode, creation_timestamp=START, **more)


def bound(
    spec: ResourceBindingSpec,
    *,
    name: str = "web",
    namespace: str = "default",
    status: ResourceBindingStatus | None = None,
    **metadata: Any,
) -> Binding:
    """Return the ResourceBinding with exactly this spec, and the status of one that no controller has seen."""
    return Binding(
        "work.karmada.io/v1alpha2",
        "ResourceBinding",
        meta(name, namespace, **metadata),
        spec,
        status or ResourceBindingStatus(),
    )


def policy(
    name: str = "all", *selectors: ResourceSelector, namespace: str = "default", at: datetime = START, **spec: Any
) -> Policy:
    """Return a PropagationPolicy of the namespace, or a ClusterPropagationPolicy if the namespace is ""."""
    return Policy(
        api_version="policy.karmada.io/v1alpha1",
        kind="PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        metadata=meta(name, namespace, at=at, finalizers=(PROPAGATION_POLICY_FINALIZER,) if namespace else ()),
        spec=PropagationSpec(resource_selectors=selectors or (DEPLOYMENTS,), **{"placement": Placement(), **spec}),
    )


def taint_policy(name: str = "down", *, at: datetime = START, **spec: Any) -> ClusterTaintPolicy:
    """Return a ClusterTaintPolicy. `match_conditions`, `taints_to_add` and so on are fields of its spec."""
    return ClusterTaintPolicy(
        "policy.karmada.io/v1alpha1", "ClusterTaintPolicy", meta(name, at=at), ClusterTaintPolicySpec(**spec)
    )


def not_ready_policy(
    effect: str = "NoExecute", *, status: str = "False", name: str = "down", key: str = "down", condition: str = "Ready"
) -> ClusterTaintPolicy:
    """Return a ClusterTaintPolicy that adds a taint to clusters whose condition, else Ready, has this status."""
    return taint_policy(
        name,
        match_conditions=(MatchCondition(condition, "In", (status,)),),
        taints_to_add=(TaintToAdd(key, effect),),
    )


def work(
    name: str = "web",
    on: str = "member1",
    *,
    of: Object | Ref | None = None,
    manifest: Mapping[str, Any] | None = None,
    conditions: Sequence[Condition] = (),
    **metadata: Any,
) -> Work:
    """Return the Work of a cluster, with a Deployment of its name.

    `of`: the binding or Namespace that a controller created it for; None: a user created it.
    """
    copied = manifest or {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}}
    origin = {} if of is None else {BINDING_ANNOTATION: str(of if isinstance(of, Ref) else of.ref)}
    annotations = {**origin, **metadata.pop("annotations", {})}
    return Work(
        "work.karmada.io/v1alpha1",
        "Work",
        meta(name, execution_namespace(on), annotations=annotations, **metadata),
        WorkSpec(Workload((dict(copied),))),
        WorkStatus(tuple(conditions)),
    )


def applied(status: str = "True", reason: str = "AppliedSuccessful", message: str = "") -> Condition:
    """Return the condition Applied of a Work of generation 1."""
    return Condition(APPLIED, status, reason, message, START, 1)


def eviction(of: Object | Ref | str, on: str = "member1", **fields: Any) -> Eviction:
    """Return the row of the eviction queue for a copy, due and queued since START.

    `of`: the binding; its reference; or the name of one in the namespace shop.
    """
    ref = Ref(RESOURCE_BINDING, "shop", of) if isinstance(of, str) else of if isinstance(of, Ref) else of.ref
    given = {"key": eviction_key(ref, on), "due_at": START, "queued_at": START, **fields}
    return Eviction(binding=str(ref), cluster=on, **given)

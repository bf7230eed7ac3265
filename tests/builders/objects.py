"""Stored objects for tests of the pure core: clusters, bindings, templates and policies, with few words at the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from controlplane.apimachinery.meta import Condition, ObjectMeta
from controlplane.apimachinery.names import PROPAGATION_POLICY_FINALIZER
from controlplane.kinds.binding import (
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    BindingPriority,
    GracefulEvictionTask,
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
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
from controlplane.kinds.template import Template

START = datetime(2026, 1, 1, tzinfo=UTC)
APPS = (APIEnablement("apps/v1", (APIResource("deployments", "Deployment"),)),)
DEPLOYMENTS = ResourceSelector("apps/v1", "Deployment")


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
    conditions = (Condition("Ready", ready, last_transition_time=at),) if ready else ()
    if established:
        conditions += (Condition("Established", "True", last_transition_time=START),)
    free = summary or ResourceSummary(allocatable={"pods": str(room), "cpu": str(room)})
    return Cluster(
        api_version="cluster.karmada.io/v1alpha1",
        kind="Cluster",
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", generation=1, creation_timestamp=START, labels=dict(labels)),
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
        metadata=ObjectMeta(
            name=f"{name}-deployment", namespace="default", uid=f"uid-{name}", generation=1, creation_timestamp=START
        ),
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


def deployment(name: str = "web", *, namespace: str = "default", replicas: int = 3, **metadata: Any) -> Template:
    """Return a Deployment whose pods request one cpu."""
    labels = metadata.pop("labels", {"app": name})
    return Template.fold(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{namespace}-{name}",
                "generation": 1,
                "creationTimestamp": START,
                "labels": labels,
                **metadata,
            },
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}]},
                },
            },
        }
    )


def namespace(name: str, **labels: str) -> Template:
    """Return a Namespace."""
    metadata = {"name": name, "uid": f"uid-{name}", "labels": labels}
    return Template.fold({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def policy(
    name: str = "all", *selectors: ResourceSelector, namespace: str = "default", at: datetime = START, **spec: Any
) -> Policy:
    """Return a PropagationPolicy of the namespace, or a ClusterPropagationPolicy if the namespace is ""."""
    return Policy(
        api_version="policy.karmada.io/v1alpha1",
        kind="PropagationPolicy" if namespace else "ClusterPropagationPolicy",
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{namespace}-{name}",
            generation=1,
            creation_timestamp=at,
            finalizers=(PROPAGATION_POLICY_FINALIZER,) if namespace else (),
        ),
        spec=PropagationSpec(resource_selectors=selectors or (DEPLOYMENTS,), **{"placement": Placement(), **spec}),
    )

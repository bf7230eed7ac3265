"""Every kind, declared once. Importing this package fills `kind.KINDS`."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.names import (
    CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,
    DEPENDENCIES_ANNOTATION,
    LEFTOVER_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
)
from controlplane.kind import KINDS, Index, Kind
from controlplane.kinds import (
    affinity_index,
    binding,
    binding_columns,
    cluster,
    cluster_rules,
    cluster_status_rules,
    colocation_index,
    columns,
    config_map,
    configuration,
    configuration_rules,
    drain,
    event,
    failback,
    failover,
    needed_by,
    origin,
    policy,
    policy_rules,
    secret,
    taint_policy,
    taint_policy_rules,
    template,
    work,
    work_rules,
    workload_rebalancer,
    workload_rebalancer_rules,
    workload_rules,
)
from controlplane.kinds.claim_column import with_policy
from controlplane.wire import builtin, definition, definition_rules
from controlplane.wire.resource import Column, Resource
from controlplane.wire.structs import schema_of

__all__ = ["KINDS"]

CLUSTER = "cluster.karmada.io/Cluster"
PROPAGATION_POLICY = "policy.karmada.io/PropagationPolicy"
CLUSTER_PROPAGATION_POLICY = "policy.karmada.io/ClusterPropagationPolicy"
CLUSTER_TAINT_POLICY = "policy.karmada.io/ClusterTaintPolicy"
RESOURCE_BINDING = "work.karmada.io/ResourceBinding"
CLUSTER_RESOURCE_BINDING = "work.karmada.io/ClusterResourceBinding"
WORK = "work.karmada.io/Work"
WORKLOAD_REBALANCER = "apps.karmada.io/WorkloadRebalancer"
FAILOVER_CONFIGURATION = "failover.lifeboat.io/FailoverConfiguration"
EVICTION, CLUSTER_EVICTION, EVICTIONS = failover.EVICTION, failover.CLUSTER_EVICTION, failover.EVICTIONS
EVICTION_HOLD, MAINTENANCE_WINDOW = failover.EVICTION_HOLD, failover.MAINTENANCE_WINDOW
EVENT = "Event"
NAMESPACE = "Namespace"
SECRET = "Secret"
LEASE = "coordination.k8s.io/Lease"
DEFINITION = definition.KEY
# Machinery of a cluster: made by its own controllers from other objects, never sent to members by a policy.
NEVER_PROPAGATED = frozenset({NAMESPACE, "Node", "Endpoints", LEASE, "discovery.k8s.io/EndpointSlice"})
COMPANIONS = (
    *("Pod", "ReplicationController", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet"),
    *("batch/Job", "batch/CronJob", "networking.k8s.io/Ingress"),
)
"""Kinds an object without pods may be kept for (index `companions`)."""

SELECTED = "*"
"""Stands for the name in a reference to whatever a selector chooses; no object is called so."""

OWNER = "owner"
"""The index of what others own, by their owners' references."""

POLICIES = (PROPAGATION_POLICY, CLUSTER_PROPAGATION_POLICY)
BINDINGS = (RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING)


def _condition(type_: str, part: str = "status") -> Any:
    def cell(doc: dict[str, Any], now: Any) -> str:
        found = [one for one in doc.get("status", {}).get("conditions", ()) if one.get("type") == type_]
        return str(found[0].get(part, "")) if found else ""

    return cell


def _path(*names: str) -> Any:
    def cell(doc: dict[str, Any], now: Any) -> Any:
        value: Any = doc
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return "" if value is None else value

    return cell


def _fenced(doc: dict[str, Any], now: Any) -> str:
    """Return who confirmed that a cluster is down and until when; "" if nobody did, or it no longer counts."""
    if _condition("Fenced")(doc, now) != "True":
        return ""
    return str(_condition("Fenced", "message")(doc, now)).partition(": ")[0].removeprefix("confirmed down ")


def _targets(doc: dict[str, Any], now: Any) -> str:
    targets = doc.get("spec", {}).get("clusters", ())
    return ",".join(f"{one['name']}:{one['replicas']}" if one.get("replicas") else one["name"] for one in targets)


def _leaving(doc: dict[str, Any], now: Any) -> str:
    return ",".join(task["fromCluster"] for task in doc.get("spec", {}).get("gracefulEvictionTasks", ()))


def _taints(doc: dict[str, Any], now: Any) -> str:
    taints = doc.get("spec", {}).get("taints", ())
    return ",".join(f"{one['key'].rsplit('/', 1)[-1]}:{one['effect']}" for one in taints)


KINDS.register(
    Kind(
        resource=Resource(
            "cluster.karmada.io",
            "v1alpha1",
            "Cluster",
            "clusters",
            "cluster",
            False,
            categories=("karmada-io",),
            subresources=("status", "fence"),
            columns=(
                Column("Version", _path("status", "kubernetesVersion")),
                Column("Mode", _path("spec", "syncMode")),
                Column("Ready", _condition("Ready")),
                Column("Taints", _taints),
                Column("Zones", lambda doc, now: ",".join(doc.get("spec", {}).get("zones", ())), priority=1),
                Column("Region", _path("spec", "region"), priority=1),
                Column("Provider", _path("spec", "provider"), priority=1),
                Column("APIEndpoint", _path("spec", "apiEndpoint"), priority=1),
                Column("Fenced", _fenced, priority=1),
            ),
        ),
        type=cluster.Cluster,
        table="clusters.Cluster",
        schema=lambda: schema_of(cluster.Cluster),
        normalise=cluster.normalise,
        default=cluster_rules.default,
        validate=cluster_rules.validate,
        validate_status=cluster_status_rules.faults,
        warn=cluster_rules.warn,
        indexes=(Index("taint", cluster.taint_keys, "fleet health (D8): who is faulty"),),
    )
)


def _owners(obj: Any) -> list[str]:
    """Return the owners of an object as references, both ways: who asks knows whether the owner has a namespace."""
    namespace = obj.metadata.namespace
    named = [(kind_key(one.api_version, one.kind), one.name) for one in obj.metadata.owner_references]
    spaces = ("", namespace) if namespace else ("",)
    return sorted({str(Ref(kind, space, name)) for kind, name in named for space in spaces})


_OWNED = Index(OWNER, _owners, "controllers.owners: what an object that goes owns")


def _selected_kinds(obj: policy.Policy) -> list[str]:
    return sorted({f"{one.api_version}/{one.kind}" for one in obj.spec.resource_selectors})


def _policy_kind(kind: str, plural: str, short: str, *, namespaced: bool) -> None:
    KINDS.register(
        Kind(
            resource=Resource(
                "policy.karmada.io",
                "v1alpha1",
                kind,
                plural,
                kind.lower(),
                namespaced,
                short_names=(short,),
                categories=("karmada-io",),
                columns=(
                    Column("Conflict-Resolution", _path("spec", "conflictResolution")),
                    Column("Priority", _path("spec", "priority"), type="integer"),
                ),
            ),
            type=policy.Policy,
            table="policies.Policy",
            schema=lambda: schema_of(policy.Policy),
            normalise=policy.normalise,
            default=policy_rules.default,
            validate=policy_rules.validate,
            warn=policy_rules.warn,
            has_status=False,
            indexes=(
                Index("selects", _selected_kinds, "controllers.policies: which policies may match a template"),
                _OWNED,
            ),
        )
    )


_policy_kind("PropagationPolicy", "propagationpolicies", "pp", namespaced=True)
_policy_kind("ClusterPropagationPolicy", "clusterpropagationpolicies", "cpp", namespaced=False)

KINDS.register(
    Kind(
        resource=Resource(
            "policy.karmada.io",
            "v1alpha1",
            "ClusterTaintPolicy",
            "clustertaintpolicies",
            "clustertaintpolicy",
            False,
            short_names=("ctp",),
            categories=("karmada-io",),
            columns=columns.TAINT_POLICY,
        ),
        type=taint_policy.ClusterTaintPolicy,
        table="policies.ClusterTaintPolicy",
        schema=lambda: schema_of(taint_policy.ClusterTaintPolicy),
        validate=taint_policy_rules.validate,
        warn=taint_policy_rules.warn,
        has_status=False,
    )
)


def _placed_on(obj: binding.Binding) -> list[str]:
    tasks = (task.from_cluster for task in obj.spec.graceful_eviction_tasks)
    return sorted({*(one.name for one in obj.spec.clusters), *tasks})


def _claimed_by(obj: Any) -> list[str]:
    annotations = obj.metadata.annotations
    if PROPAGATION_POLICY_NAME_ANNOTATION in annotations:
        namespace = annotations.get(PROPAGATION_POLICY_NAMESPACE_ANNOTATION, "")
        return [str(Ref(PROPAGATION_POLICY, namespace, annotations[PROPAGATION_POLICY_NAME_ANNOTATION]))]
    name = annotations.get(CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION)
    return [] if name is None else [str(Ref(CLUSTER_PROPAGATION_POLICY, "", name))]


def _leaving_clusters(obj: binding.Binding) -> list[str]:
    """Return the clusters a binding leaves, and as "to:<name>" those whose copies have to be healthy first."""
    tasks = obj.spec.graceful_eviction_tasks
    going = {f"to:{target.name}" for target in obj.spec.clusters} if tasks else set()
    return sorted({task.from_cluster for task in tasks} | going)


def _required_by(obj: binding.Binding) -> list[str]:
    return sorted({f"{one.namespace}/{one.name}" for one in obj.spec.required_by})


def _depends_on(obj: binding.Binding) -> list[str]:
    text = obj.metadata.annotations.get(DEPENDENCIES_ANNOTATION)
    if text is None:
        return []
    try:
        listed = msgspec.json.decode(text, type=list[dict[str, Any]])
        kinds = [kind_key(one.get("apiVersion", ""), one["kind"]) for one in listed]
        places = [(one.get("namespace", ""), one.get("name") or SELECTED) for one in listed]
        return sorted({str(Ref(kind, *place)) for kind, place in zip(kinds, places, strict=True)})
    except (msgspec.MsgspecError, KeyError, TypeError):
        return []  # somebody else wrote it


def _binding_kind(kind: str, plural: str, short: str, *, namespaced: bool) -> None:
    KINDS.register(
        Kind(
            resource=Resource(
                "work.karmada.io",
                "v1alpha2",
                kind,
                plural,
                kind.lower(),
                namespaced,
                short_names=(short,),
                categories=("karmada-io",),
                subresources=("status", "explain", "revert", "readiness"),
                columns=(
                    Column("Scheduled", _condition("Scheduled")),
                    Column("FullyApplied", _condition("FullyApplied")),
                    Column("Clusters", _targets),
                    *binding_columns.COLUMNS,
                    Column("Leaving", _leaving, priority=1),
                ),
            ),
            type=binding.Binding,
            table="resources.Binding",
            schema=lambda: schema_of(binding.Binding),
            default=work_rules.default_binding,
            validate=work_rules.validate_binding,
            indexes=(
                Index(
                    "affine", affinity_index.affine_keys, "controllers.scheduler: bindings a changed cluster concerns"
                ),
                Index("pending", affinity_index.pending_keys, "controllers.scheduler: bindings that wait for room"),
                Index(
                    "group", affinity_index.group_keys, "controllers.scheduler: bindings of a workload affinity group"
                ),
                Index(
                    "together",
                    colocation_index.together_keys,
                    "controllers.scheduler, evictions: parts of an application",
                ),
                Index("placed", _placed_on, "controllers.eviction_queue, scheduler, drains: bindings on a cluster"),
                Index(
                    "leaving",
                    _leaving_clusters,
                    "controllers.graceful_eviction, drains: tasks a cluster's change may clear",
                ),
                Index("required", _required_by, "controllers.dependencies: what a workload said it needs"),
                Index("depends", _depends_on, "controllers.dependencies: workloads that need an object"),
                Index("policy", _claimed_by, "controllers.policies: bindings a policy claims, when it changes"),
                Index("left", origin.left_clusters, "controllers.failbacks: what has left a cluster in a failover"),
            ),
        )
    )


_binding_kind("ResourceBinding", "resourcebindings", "rb", namespaced=True)
_binding_kind("ClusterResourceBinding", "clusterresourcebindings", "crb", namespaced=False)


def _work_cluster(obj: work.Work) -> list[str]:
    return [obj.cluster] if obj.cluster else []


def _leftover(obj: work.Work) -> list[str]:
    return _work_cluster(obj) if LEFTOVER_ANNOTATION in obj.metadata.annotations else []


def _work_binding(obj: work.Work) -> list[str]:
    return [] if obj.made_for is None else [str(obj.made_for)]


KINDS.register(
    Kind(
        resource=Resource(
            "work.karmada.io",
            "v1alpha1",
            "Work",
            "works",
            "work",
            True,
            short_names=("wk",),
            categories=("karmada-io",),
            subresources=("status",),
            columns=(
                Column("Workload-Kind", lambda doc, now: _manifest(doc).get("kind", "")),
                Column("Workload-Name", lambda doc, now: _manifest(doc).get("metadata", {}).get("name", "")),
                Column("Applied", _condition("Applied")),
            ),
        ),
        type=work.Work,
        table="resources.Work",
        schema=lambda: schema_of(work.Work),
        default=work_rules.default_work,
        validate=work_rules.validate_work,
        indexes=(
            Index("binding", _work_binding, "controllers.works, status: the Works of a binding"),
            Index("cluster", _work_cluster, "members: what a cluster shall hold"),
            Index("leftover", _leftover, "controllers.works: what was left on a cluster that is back"),
        ),
    )
)


def _manifest(doc: dict[str, Any]) -> dict[str, Any]:
    manifests = doc.get("spec", {}).get("workload", {}).get("manifests", ())
    return manifests[0] if manifests else {}


KINDS.register(
    Kind(
        resource=Resource(
            "failover.lifeboat.io",
            "v1alpha1",
            "FailoverConfiguration",
            "failoverconfigurations",
            "failoverconfiguration",
            False,
            categories=("lifeboat",),
            columns=columns.CONFIGURATION,
        ),
        type=configuration.FailoverConfiguration,
        schema=lambda: schema_of(configuration.Explained),
        validate=configuration_rules.validate,
        warn=configuration_rules.warn,
        has_status=False,
    )
)


KINDS.register(
    Kind(
        resource=Resource(
            "apps.karmada.io",
            "v1alpha1",
            "WorkloadRebalancer",
            "workloadrebalancers",
            "workloadrebalancer",
            False,
            categories=("karmada-io",),
            subresources=("status",),
            columns=(Column("Finished", _path("status", "finishTime")),),
        ),
        type=workload_rebalancer.WorkloadRebalancer,
        schema=lambda: schema_of(workload_rebalancer.WorkloadRebalancer),
        validate=workload_rebalancer_rules.validate,
    )
)


for _kind in (*drain.DECLARED, *failback.DECLARED, *failover.DECLARED):
    KINDS.register(_kind)


def _about(obj: event.Event) -> list[str]:
    return [obj.involved_object.uid] if obj.involved_object.uid else []


def _definition_faults(new: template.Template, old: template.Template | None, settings: Any) -> list[Cause]:
    return definition_rules.faults(new.document(), None if old is None else old.document())


_CLAIMED = Index("policy", _claimed_by, "controllers.policies: templates a policy claims")
_COMPANIONS = Index(
    "companions", needed_by.companion_keys, "controllers.graceful_eviction: what runs the pods an object serves"
)
# Built-in kinds whose objects describe members or machinery and are never templates of ours.
_NOT_TEMPLATES = {"Event", "events.k8s.io/Event"}
_TEMPLATE_RULES = {
    SECRET: secret.validate,
    "ConfigMap": config_map.validate,
    **dict.fromkeys(workload_rules.COUNTED, workload_rules.validate),
}
# Kinds with a status whose generations Kubernetes does not count; those without a status it does not count either.
_UNCOUNTED = {NAMESPACE, "Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "Service"}


for _resource in builtin.RESOURCES:
    if _resource.key == EVENT:
        KINDS.register(
            Kind(
                resource=_resource,
                type=event.Event,
                table="objects.Event",
                schema=lambda: builtin.schema("", "v1", "Event"),
                indexes=(Index("about", _about, "kubectl describe: events of an object"),),
                has_generation=False,
                has_status=False,
                audited=False,
            )
        )
    elif _resource.key == DEFINITION:
        KINDS.register(
            Kind(
                resource=with_policy(_resource),
                type=template.Template,
                schema=lambda one=_resource: builtin.schema(one.group, one.version, one.kind),  # type: ignore[misc]
                fill=definition_rules.defaulted,
                validate=_definition_faults,
                warn=lambda new, old, settings: definition_rules.warnings(new.document()),
                indexes=(_CLAIMED, _OWNED),
            )
        )
    elif _resource.key not in _NOT_TEMPLATES:
        KINDS.register(
            Kind(
                resource=_resource if _resource.key in NEVER_PROPAGATED else with_policy(_resource),
                type=template.Template,
                schema=lambda one=_resource: builtin.schema(one.group, one.version, one.kind),  # type: ignore[misc]
                normalise=secret.normalise if _resource.key == SECRET else lambda doc: [],
                validate=_TEMPLATE_RULES.get(_resource.key, lambda new, old, settings: []),
                indexes=(_CLAIMED, _OWNED, *((_COMPANIONS,) if _resource.key in COMPANIONS else ())),
                has_generation="status" in _resource.subresources and _resource.key not in _UNCOUNTED,
                has_status="status" in _resource.subresources,
            )
        )

from controlplane.kinds import field_texts  # noqa: E402, F401  # gives fields of all kinds their texts

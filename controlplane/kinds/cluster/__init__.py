"""Cluster (cluster.karmada.io/v1alpha1): a member cluster, with its taints and its last observed status."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta, field

from controlplane.apimachinery.meta import Condition, Int32, Object, QuantityText, Struct, UserStruct, condition
from controlplane.apimachinery.names import OBSERVE_ANNOTATION

CLUSTER = "cluster.karmada.io/Cluster"

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
PREFER_NO_EXECUTE, PREFER_NO_SCHEDULE = "PreferNoExecute", "PreferNoSchedule"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, PREFER_NO_EXECUTE, NO_EXECUTE)
EVICTING_EFFECTS = (NO_EXECUTE, PREFER_NO_EXECUTE)
Effect = Annotated[
    str,
    Meta(
        description="NoSchedule: no new workloads are scheduled here. PreferNoSchedule: other clusters are preferred. "
        "NoExecute evicts all workloads, except those whose placement.clusterTolerations tolerate the taint. "
        "PreferNoExecute evicts only workloads whose policy has failover.cluster, after its tolerationSeconds. "
        "clusterTolerations apply to NoSchedule and NoExecute only. "
        "While the feature gate Failover is off, no effect evicts anything."
    ),
]

NOT_READY_KEY = "cluster.karmada.io/not-ready"
UNREACHABLE_KEY = "cluster.karmada.io/unreachable"
ACCESS_LOST_KEY = "failover.lifeboat.io/access-lost"

READY = "Ready"
ACCESS_LOST = "AccessLost"
COMPLETE_APIS = "CompleteAPIEnablements"
ESTABLISHED = "Established"
"""Condition type: the cluster has been Ready at least once. Only such clusters count in the eviction tier
[eviction-tier]."""
FLAPPING = "Flapping"
"""Condition type: the results of probes change too often, so Ready is not changed [flapping-cluster]."""
FENCED = "Fenced"
"""Condition type: an operator confirmed that the cluster is down, and the cluster has not answered since."""
PUBLISHED = (READY, ACCESS_LOST, COMPLETE_APIS, ESTABLISHED, FLAPPING, FENCED)
"""Condition types that the control plane writes. All other types belong to other programs."""
# Reasons of AccessLost: the member answers 401 or 403; its certificate has expired or is not trusted; the Secret or
# the endpoint of the Cluster is wrong, or the encryption key of the Secret is lost.
ACCESS_REFUSED, CERTIFICATE_EXPIRED, CERTIFICATE_REFUSED = "AccessRefused", "CertificateExpired", "CertificateRefused"
MISCONFIGURED = "Misconfigured"
# Reasons of AccessLost: the member answers with a redirect, which is never followed; its address must not be called.
REDIRECTED, ADDRESS_REFUSED = "Redirected", "AddressRefused"
# Reason of AccessLost, in memory only: the stored document of the Cluster cannot be decoded (`damaged`).
UNREADABLE = "Unreadable"

MAX_POOLS: Final = 64
"""How many pools of nodes a cluster reports [node-estimate]."""
MAX_ROOMS: Final = 256
"""How many different free amounts of nodes a cluster reports, in all of its pools together [node-estimate]."""

PULL, PUSH = "Pull", "Push"  # an agent in the member calls the control plane; the control plane calls the member


class Taint(UserStruct, frozen=True):
    """A taint of a cluster. No two have the same key and effect. The seconds of tolerations count from `time_added`."""

    key: str
    effect: Effect
    value: str = ""
    time_added: datetime | None = None


class SecretReference(UserStruct, frozen=True):
    namespace: str = ""
    name: str = ""


class ResourceModelRange(UserStruct, frozen=True):
    name: str
    min: str
    max: str


class ResourceModel(UserStruct, frozen=True):
    grade: int
    ranges: tuple[ResourceModelRange, ...] = ()


class ClusterSpec(UserStruct, frozen=True):
    id: str = ""
    sync_mode: str = PUSH
    api_endpoint: str = ""
    secret_ref: SecretReference | None = None
    impersonator_secret_ref: SecretReference | None = None
    insecure_skip_tls_verification: bool = field(name="insecureSkipTLSVerification", default=False)
    proxy_url: str = field(name="proxyURL", default="")
    proxy_header: dict[str, str] = {}
    provider: str = ""
    region: str = ""
    zone: str = ""
    zones: tuple[str, ...] = ()
    taints: tuple[Taint, ...] = ()
    resource_models: tuple[ResourceModel, ...] = ()


class APIResource(Struct, frozen=True):
    name: str
    kind: str


class APIEnablement(Struct, frozen=True):
    group_version: str
    resources: tuple[APIResource, ...] = ()


class NodeSummary(Struct, frozen=True):
    total_num: int = 0
    ready_num: int = 0


class AllocatableModeling(Struct, frozen=True):
    grade: int
    count: int


class PriorityClassTerm(Struct, frozen=True):
    """A condition on the priority class of pods. operator: In, NotIn, Exists or DoesNotExist."""

    operator: str
    values: tuple[str, ...] = ()


class NamespaceQuota(Struct, frozen=True):
    """What a ResourceQuota of the member leaves to pods that meet all `priority_classes`, by resource name."""

    namespace: str
    name: str
    free: dict[str, QuantityText] = {}
    priority_classes: tuple[PriorityClassTerm, ...] = ()


class NodeTaint(Struct, frozen=True):
    """A taint of nodes with the effect NoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


class NodeRoom(Struct, frozen=True):
    """Nodes with equal free amounts: how many there are, and what each has free, by resource name."""

    count: Int32 = 0
    free: dict[str, QuantityText] = {}


class NodePool(Struct, frozen=True):
    """Nodes of the member with equal labels and equal taints."""

    labels: dict[str, str] = {}
    taints: tuple[NodeTaint, ...] = ()
    nodes: tuple[NodeRoom, ...] = ()


class ResourceSummary(Struct, frozen=True):
    """Quantities by resource name."""

    allocatable: dict[str, QuantityText] = {}
    allocating: dict[str, QuantityText] = {}
    allocated: dict[str, QuantityText] = {}
    allocatable_modelings: tuple[AllocatableModeling, ...] = ()
    namespace_quotas: tuple[NamespaceQuota, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    unlisted_node_labels: tuple[str, ...] = ()


class ClusterStatus(Struct, frozen=True):
    kubernetes_version: str = ""
    api_enablements: tuple[APIEnablement, ...] = ()
    conditions: tuple[Condition, ...] = ()
    node_summary: NodeSummary | None = None
    resource_summary: ResourceSummary | None = None
    remedy_actions: tuple[str, ...] = ()


class Cluster(Object, frozen=True):
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()

    def has_taint(self, *effects: str) -> bool:
        """Test whether the cluster has a taint with one of the effects."""
        taints = self.spec.taints  # called thousands of times a second, and most clusters have no taints
        return bool(taints) and any(taint.effect in effects for taint in taints)

    @property
    def ready(self) -> str:
        """The status of the condition Ready; "": Ready was never reported."""
        ready = condition(self.status.conditions, READY)
        return "" if ready is None else ready.status

    @property
    def access_lost(self) -> bool:
        """Test whether the member refuses the control plane. Its status is then the last known status [lost-access]."""
        found = condition(self.status.conditions, ACCESS_LOST)
        return found is not None and found.status == "True"

    @property
    def unreadable(self) -> str:
        """Why the stored document cannot be decoded, so that this is only a part of it and must not be stored; "": it
        can (`damaged.readable_part`)."""
        found = condition(self.status.conditions, ACCESS_LOST)
        return found.message if found is not None and found.reason == UNREADABLE else ""

    @property
    def flapping(self) -> bool:
        """Test whether the results of probes change too often, so that Ready is not changed [flapping-cluster]."""
        found = condition(self.status.conditions, FLAPPING)
        return found is not None and found.status == "True"

    @property
    def answers(self) -> bool:
        """Test whether the member is Ready and accessible, so that its reports are current and Works reach it."""
        return self.ready == "True" and not self.access_lost

    @property
    def out_of_reach_since(self) -> datetime | None:
        """The time from which the reports of the member are only its last known state.

        None: the member is Ready and accessible, or Ready was never reported.
        """
        ready, lost = condition(self.status.conditions, READY), condition(self.status.conditions, ACCESS_LOST)
        since = [
            entry.last_transition_time
            for entry, bad in ((ready, ready is not None and ready.status != "True"), (lost, self.access_lost))
            if entry is not None and bad and entry.last_transition_time is not None
        ]
        return min(since, default=None)

    @property
    def called_directly(self) -> bool:
        """Test whether the control plane calls the member: it is a Push cluster and has an `apiEndpoint`."""
        return self.spec.sync_mode == PUSH and bool(self.spec.api_endpoint)

    @property
    def observed(self) -> bool:
        """Test whether the member is only read and compared, and never written to [observed-clusters]."""
        return self.metadata.annotations.get(OBSERVE_ANNOTATION) == "true"

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


def taint_effects(cluster: Cluster) -> list[str]:
    """Return the effects of a cluster's taints, as values of the index `taint`."""
    return sorted({taint.effect for taint in cluster.spec.taints})


def normalise(doc: dict[str, Any]) -> list[str]:
    """Move the deprecated field spec.zone into spec.zones, in place. Return a warning if it was moved.

    So a manifest with spec.zone can be applied again without a difference. Values of a wrong type, and a zone that
    contradicts spec.zones, stay as they are for validation to refuse.
    """
    spec = doc.get("spec")
    zone = spec.get("zone") if isinstance(spec, dict) else None
    if (
        not isinstance(spec, dict)
        or not isinstance(zone, str)
        or not zone
        or spec.get("zones") not in (None, [], [zone])
    ):
        return []
    spec["zones"] = [spec.pop("zone")]
    return ["spec.zone is deprecated and was moved to spec.zones"]

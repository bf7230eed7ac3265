"""Cluster (cluster.karmada.io/v1alpha1): a member, its taints, and what was last seen of it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, field

from controlplane.apimachinery.meta import Condition, Object, QuantityText, Struct, UserStruct, condition

CLUSTER = "cluster.karmada.io/Cluster"

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
PREFER_NO_EXECUTE, PREFER_NO_SCHEDULE = "PreferNoExecute", "PreferNoSchedule"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, PREFER_NO_EXECUTE, NO_EXECUTE)
EVICTING_EFFECTS = (NO_EXECUTE, PREFER_NO_EXECUTE)
Effect = Annotated[
    str,
    Meta(
        description="NoSchedule: nothing new is placed here. PreferNoSchedule: what is new is placed elsewhere first. "
        "NoExecute moves everything that is here, except what placement.clusterTolerations bear; they are asked about "
        "NoSchedule and NoExecute alone. PreferNoExecute moves only workloads whose policy has failover.cluster, after "
        "its tolerationSeconds; no clusterToleration is asked, and all others stay. NoExecute and PreferNoExecute move "
        "nothing while the feature gate Failover is off."
    ),
]

NOT_READY_KEY = "cluster.karmada.io/not-ready"
UNREACHABLE_KEY = "cluster.karmada.io/unreachable"
ACCESS_LOST_KEY = "failover.lifeboat.io/access-lost"

READY = "Ready"
ACCESS_LOST = "AccessLost"
COMPLETE_APIS = "CompleteAPIEnablements"
ESTABLISHED = "Established"
"""Condition type: the cluster has been Ready once (D8 counts no other)."""
FLAPPING = "Flapping"
"""Condition type: what the member answers changes too fast to be published (clusters/flapping.py, fault 3)."""
FENCED = "Fenced"
"""Condition type: an operator confirmed that the cluster is down, and it has not answered since."""
PUBLISHED = (READY, ACCESS_LOST, COMPLETE_APIS, ESTABLISHED, FLAPPING, FENCED)
"""Condition types that this system publishes; all others are other programs'."""
# Its reasons: we are refused (401, 403); the member's certificate cannot be trusted, or no longer; our own fault.
ACCESS_REFUSED, CERTIFICATE_EXPIRED, CERTIFICATE_REFUSED = "AccessRefused", "CertificateExpired", "CertificateRefused"
MISCONFIGURED = "Misconfigured"
# The member answered with a redirect, which is never followed; its address is one that must not be called.
REDIRECTED, ADDRESS_REFUSED = "Redirected", "AddressRefused"

PULL, PUSH = "Pull", "Push"  # who reaches whom: an agent in the member the control plane, or the other way round


class Taint(UserStruct, frozen=True):
    """A taint; unique by (key, effect). `time_added` starts the clocks of tolerations."""

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


class ResourceSummary(Struct, frozen=True):
    """Quantities as text, by resource name."""

    allocatable: dict[str, QuantityText] = {}
    allocating: dict[str, QuantityText] = {}
    allocated: dict[str, QuantityText] = {}
    allocatable_modelings: tuple[AllocatableModeling, ...] = ()


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
        """Test whether a taint with one of the effects is on the cluster."""
        taints = self.spec.taints  # asked thousands of times a second, and most clusters have none
        return bool(taints) and any(taint.effect in effects for taint in taints)

    @property
    def ready(self) -> str:
        """Status of the Ready condition; "" where nobody ever reported one."""
        found = condition(self.status.conditions, READY)
        return "" if found is None else found.status

    @property
    def access_lost(self) -> bool:
        """Test whether the member does not let us in: what was seen last is all that is known of it (D22)."""
        found = condition(self.status.conditions, ACCESS_LOST)
        return found is not None and found.status == "True"

    @property
    def flapping(self) -> bool:
        """Test whether what the member answers changes too fast to be published."""
        found = condition(self.status.conditions, FLAPPING)
        return found is not None and found.status == "True"

    @property
    def answers(self) -> bool:
        """Test whether what the member reports is news and what it is asked for gets done: Ready, and it lets us in."""
        return self.ready == "True" and not self.access_lost

    @property
    def out_of_reach_since(self) -> datetime | None:
        """Return since when what the member reported is only its last known state.

        None: the member is Ready and lets us in, or Ready was never reported.
        """
        ready, lost = condition(self.status.conditions, READY), condition(self.status.conditions, ACCESS_LOST)
        since = [
            one.last_transition_time
            for one, bad in ((ready, ready is not None and ready.status != "True"), (lost, self.access_lost))
            if one is not None and bad and one.last_transition_time is not None
        ]
        return min(since, default=None)

    @property
    def called_directly(self) -> bool:
        """Test whether the control plane itself talks to the member; where not, an agent in there does its part."""
        return self.spec.sync_mode == PUSH and bool(self.spec.api_endpoint)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None


def taint_effects(cluster: Cluster) -> list[str]:
    """Return the effects of a cluster's taints, as values of the index `taint`."""
    return sorted({taint.effect for taint in cluster.spec.taints})


def normalise(doc: dict[str, Any]) -> list[str]:
    """Move the deprecated `zone` into `zones`; a manifest that says it can be applied again. Returns warnings.

    A value that is no text, and zones that do not fit, are left to validation.
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

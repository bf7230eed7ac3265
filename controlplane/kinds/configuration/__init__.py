"""FailoverConfiguration (failover.lifeboat.io/v1alpha1): settings that change at run time; one object, `default`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from controlplane.apimachinery.meta import Object
from controlplane.settings import FIXED, Settings

FAILOVER_CONFIGURATION = "failover.lifeboat.io/FailoverConfiguration"
NAME = "default"

TEXTS: Final[Mapping[str, str]] = {
    "feature_gates": (
        "Features by gate; those not named keep their default. Unknown gates are refused. FEATURE_GATES is read too."
    ),
    "cluster_status_update_frequency": "Time between two probes of a member.",
    "cluster_success_threshold": "How long probes must succeed before a cluster counts as Ready.",
    "cluster_failure_threshold": "How long probes must fail before a cluster counts as not Ready.",
    "cluster_monitor_period": "Time between two looks at all clusters' health.",
    "cluster_monitor_grace_period": "Silence after which Ready becomes Unknown.",
    "cluster_startup_grace_period": "The same for a cluster that has just joined.",
    "auto_no_schedule_taints": "Add not-ready and unreachable with NoSchedule as soon as Ready says so.",
    "failover_eviction_timeout": "Wait before NoExecute where compat.auto_no_execute_taints is on.",
    "resource_eviction_rate": "Evictions per second while most clusters are healthy.",
    "secondary_resource_eviction_rate": (
        "Evictions per second above the threshold of unhealthy clusters, in a large fleet."
    ),
    "unhealthy_cluster_threshold": (
        "Share of unhealthy clusters above which evictions slow down, or stop in a small fleet."
    ),
    "large_cluster_num_threshold": "Up to this many clusters a fleet is small.",
    "no_execute_taint_eviction_purge_mode": "Purge mode of policies that name none: Gracefully or Directly.",
    "graceful_eviction_timeout": "How long an old copy waits for the new one to be healthy.",
    "on_graceful_timeout": "Then: Hold keeps the old copy and says Stuck, Purge removes it.",
    "evict_plugins": "Checks that may clear an eviction task; any one suffices.",
    "directly_unreachable": (
        "Directly, and the source cannot be reached: Wait, or Proceed without knowing the old copy gone."
    ),
    "state_preservation_on_missing": "State to carry over cannot be read: Hold, or Proceed without it.",
    "enable_cluster_resource_modeling": "Read nodes and pods of members and make up their resource summary.",
    "enable_empty_workload_propagation": "Propagate workloads that ask for no replicas.",
    "skipped_propagating_namespaces": "Namespaces, as regular expressions, whose resources stay here.",
    "compat.auto_no_execute_taints": "Earlier behaviour: NoExecute by itself after failover_eviction_timeout.",
    "compat.default_not_ready_toleration_seconds": (
        "Earlier behaviour: toleration of not-ready given to policies that have none (300 there)."
    ),
    "compat.default_unreachable_toleration_seconds": "The same for unreachable.",
    "compat.terminating_taint": "Earlier behaviour: a cluster being deleted gets a NoExecute taint.",
    "compat.cluster_eviction_filter": "Earlier behaviour: no cluster with an eviction task is scheduled to.",
    "eviction.bucket_scope": "One bucket of tokens for the Fleet, or one for each Cluster.",
    "eviction.ageing_seconds": "Waiting time that lifts an eviction by one priority.",
    "eviction.reevaluate_policies": "Judge queued evictions again when their policy changes.",
    "eviction.require_full_replacement": "Duplicated: hold unless every lost copy finds a replacement.",
    "eviction.partial_refuge": "Divided: place what fits when not all lost replicas fit and the source is not Ready.",
    "change_log.keep_seconds": "How long a change is kept. A watch from before that is answered 410.",
    "change_log.keep_versions": "How many versions are kept.",
    "change_log.keep_bytes": "How large the change log may become, with its indexes; unset: as large as it becomes.",
    "estimator.model_formula": "How free replicas come out of resource models: Optimistic, Strict or Simulate.",
}
"""What each setting turns, as docs/settings.md says it."""


class FailoverConfiguration(Object, frozen=True):
    """Settings that change while everything runs, within a second: those of docs/settings.md marked R. One object,
    called default."""

    # Only what is overridden, in camelCase; `settings.with_overrides` checks and applies it.
    spec: dict[str, Any] = {}


def _told(of: type[msgspec.Struct], path: str = "") -> type[msgspec.Struct]:
    """Return settings as fields of which any may be left out, each with its text."""
    fields = []
    for one in msgspec.structs.fields(of):
        if one.name in FIXED:
            continue
        nested = isinstance(one.type, type) and issubclass(one.type, msgspec.Struct)
        known = _told(one.type, f"{one.name}.") if nested else one.type
        text = Meta(description=(one.type.__doc__ or "") if nested else TEXTS[f"{path}{one.name}"])
        fields.append((one.name, Annotated[known | None, text], None))
    return msgspec.defstruct(f"{of.__name__}Overrides", fields, frozen=True, rename="camel")


EXPLAINED = msgspec.defstruct(
    "FailoverConfiguration",
    [("spec", Annotated[_told(Settings) | None, Meta(description="Only what differs from the environment.")], None)],
    bases=(Object,),
    frozen=True,
    namespace={"__doc__": FailoverConfiguration.__doc__},
)
"""The same object with its settings spelled out, for its schema."""

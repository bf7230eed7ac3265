"""All settings of the product: name, type, limits, default and description of each.

`listing.py` lists them for documents and for readers of the environment. `checks.py` makes them from plain values.

The environment gives every setting a value at start. The object FailoverConfiguration/default may override a setting
at run time, unless the setting is in `READ_AT_START`. Functions get the settings they need as arguments.

The text in `Meta(description=…)` is the only text of a setting. `kubectl explain failoverconfiguration.spec` prints it,
and `make docs` writes it into docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from controlplane.apimachinery import addresses
from controlplane.apimachinery.meta import Struct

MAX_SECONDS = 1_000_000_000  # thirty years: now plus this many seconds is still a valid time
MIN_RATE, MAX_RATE = 0.000_001, 1_000_000  # resources per second; a rate of 0 is allowed as well
DAY = 86_400  # seconds
# How long something is waited for. The maximum stands for "never".
Seconds = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
# Interval of a periodic check. A shorter one would keep a process busy, a longer one would miss what happens.
Period = Annotated[float, Meta(ge=0.1, le=3600)]
# How long an observation has to last before it counts.
Threshold = Annotated[float, Meta(ge=0, le=DAY)]
# How long a heartbeat may be missing.
Grace = Annotated[float, Meta(ge=1, le=DAY)]
# How long a client waits for a member.
Timeout = Annotated[float, Meta(ge=1, le=7 * DAY)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Rate = Annotated[float, Meta(ge=0, le=MAX_RATE)]
WholeSeconds = Annotated[int, Meta(ge=0, le=MAX_SECONDS)]

GATES: Mapping[str, bool] = {
    **dict.fromkeys(("Failover", "StatefulFailoverInjection"), False),
    **dict.fromkeys(("CustomizedClusterResourceModeling", "PropagateDeps"), True),
    **dict.fromkeys(("PropagationPolicyPreemption", "WorkloadAffinity", "MultiplePodTemplatesScheduling"), False),
    **dict.fromkeys(("FederatedQuotaEnforcement", "ResourceQuotaEstimate"), False),
}
"""Feature gates and their defaults."""

RETIRED_GATES: Mapping[str, str] = {
    "GracefulEviction": "graceful eviction is chosen per policy with spec.failover.cluster.purgeMode",
}
"""Gates of earlier releases that are accepted without effect, and what replaces each [failover-gate]."""


class Compat(Struct, frozen=True):
    """Behaviour of earlier releases. All of it is off by default."""

    auto_no_execute_taints: Annotated[
        bool,
        Meta(
            description="Add the NoExecute taints `not-ready` and `unreachable` without a ClusterTaintPolicy, once a "
            "cluster has been unhealthy for `failover_eviction_timeout`."
        ),
    ] = False
    default_not_ready_toleration_seconds: Annotated[
        WholeSeconds | None,
        Meta(
            description="Seconds of the toleration of `not-ready:NoExecute` that new policies get if they have none. "
            "Earlier releases used 300. Unset: no toleration is added."
        ),
    ] = None
    default_unreachable_toleration_seconds: Annotated[
        WholeSeconds | None,
        Meta(
            description="Seconds of the toleration of `unreachable:NoExecute` that new policies get if they have none. "
            "Earlier releases used 300. Unset: no toleration is added."
        ),
    ] = None
    terminating_taint: Annotated[
        bool, Meta(description="Add a NoExecute taint to a cluster that is being deleted, so that it is evicted.")
    ] = False
    cluster_eviction_filter: Annotated[
        bool,
        Meta(
            description="Do not schedule a workload to a cluster while it has any eviction task for that cluster. Off: "
            "tasks because of a taint do not exclude the cluster, its taints do."
        ),
    ] = False


class EvictionSettings(Struct, frozen=True):
    """The eviction queue."""

    bucket_scope: Annotated[
        Literal["Fleet", "Cluster"],
        Meta(description="What the eviction rate limits: `Fleet` all clusters together, `Cluster` each by itself."),
    ] = "Fleet"
    ageing_seconds: Annotated[
        float,
        Meta(
            ge=1,
            le=MAX_SECONDS,
            description="Seconds of waiting in the eviction queue that count like one more step of priority.",
        ),
    ] = 300
    reevaluate_policies: Annotated[
        bool,
        Meta(
            description="When a policy changes, apply its tolerations to evictions that are queued already. Off: an "
            "eviction keeps the result of the time at which the taint appeared."
        ),
    ] = False
    require_full_replacement: Annotated[
        bool,
        Meta(
            description="Workloads of type Duplicated: hold an eviction until every lost copy has a replacement. Off: "
            "evict as soon as enough clusters fit for the minimum of the policy's spread constraints."
        ),
    ] = False
    partial_refuge: Annotated[
        bool,
        Meta(
            description="Divided workloads: evict from a cluster that is not Ready as soon as some of the lost "
            "replicas fit elsewhere. Off: wait until all of them fit."
        ),
    ] = True


class EstimatorSettings(Struct, frozen=True):
    """The estimate of how many replicas fit on a cluster."""

    model_formula: Annotated[
        Literal["Optimistic", "Strict", "Simulate"],
        Meta(description="How the number of replicas that fit is computed from resource models."),
    ] = "Optimistic"


Bytes = Annotated[int, Meta(ge=1_048_576, le=1_073_741_824)]


class MemberSettings(Struct, frozen=True):
    """Which addresses of members may be called, how much data members may send, and the limits of the proxy to them."""

    refused_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Networks, in CIDR notation, in which no member and no proxy is called. An address in a "
            "Cluster is checked when the Cluster is written, a name when it is resolved."
        ),
    ] = addresses.REFUSED
    allowed_addresses: Annotated[
        tuple[str, ...],
        Meta(
            description="Exceptions to `members.refused_addresses`, for example `127.0.0.0/8` for members behind a "
            "tunnel that ends on this host. `make run` allows the loopback addresses."
        ),
    ] = ()
    answer_bytes: Annotated[
        Bytes,
        Meta(
            description="Maximum size, in bytes after decompression, of an answer of a member and of a line of a "
            "watch. Longer lists are read in smaller pages."
        ),
    ] = 8_388_608
    watch_bytes: Annotated[
        Bytes, Meta(description="Maximum size, in bytes, of all objects of one member that are kept for their health.")
    ] = 268_435_456
    compare_seconds: Annotated[
        Timeout, Meta(description="Seconds between complete comparisons of a member's objects with their Works.")
    ] = 1800
    proxy_answer_seconds: Annotated[
        Timeout, Meta(description="Seconds within which a member begins to answer through `clusters/<name>/proxy`.")
    ] = 60
    proxy_idle_seconds: Annotated[
        Timeout, Meta(description="Seconds without a byte after which a request through the proxy is ended.")
    ] = 3600
    proxy_longest_seconds: Annotated[
        Timeout, Meta(description="Seconds after which every request through the proxy is ended.")
    ] = 14_400
    proxy_requests: Annotated[Count, Meta(description="Requests through the proxy that one process has open.")] = 1000
    proxy_requests_per_user: Annotated[Count, Meta(description="Of them, those of one user.")] = 200
    proxy_requests_per_member: Annotated[Count, Meta(description="Of them, those to one member.")] = 200


class ChangeLogSettings(Struct, frozen=True):
    """How much the change log keeps. Its oldest partition is dropped as soon as any of these limits is exceeded."""

    keep_seconds: Annotated[
        float,
        Meta(
            ge=3600,
            le=MAX_SECONDS,
            description="Seconds for which a change is kept. A watch that starts from an older version gets 410.",
        ),
    ] = 2_592_000
    keep_versions: Annotated[
        int, Meta(ge=1_000_000, le=1_000_000_000_000, description="Number of versions that are kept.")
    ] = 20_000_000
    keep_bytes: Annotated[
        Annotated[int, Meta(ge=100_000_000, le=1_000_000_000_000_000)] | None,
        Meta(description="Maximum size of the change log in bytes, with its indexes. Unset: no limit."),
    ] = None


class Settings(Struct, frozen=True):
    """All settings. Times are in seconds, rates in resources per second."""

    feature_gates: Annotated[
        dict[str, bool],
        Meta(
            description="Feature gates, each on or off. A gate that is not named keeps its default. An unknown gate is "
            "refused. The environment variable `FEATURE_GATES` is read as well."
        ),
    ] = msgspec.field(default_factory=lambda: dict(GATES))
    controllers: Annotated[
        tuple[str, ...],
        Meta(description="Controllers that run: `*` is all controllers, `-name` excludes a controller."),
    ] = ("*",)
    cluster_status_update_frequency: Annotated[
        Period, Meta(description="Seconds between two probes of a member, and between two reads of its resources.")
    ] = 10
    cluster_success_threshold: Annotated[
        Threshold, Meta(description="Seconds for which probes have to succeed before a cluster becomes Ready.")
    ] = 30
    cluster_failure_threshold: Annotated[
        Threshold, Meta(description="Seconds for which probes have to fail before a cluster becomes not Ready.")
    ] = 30
    cluster_monitor_period: Annotated[
        Period, Meta(description="Seconds between two checks of the health of all clusters.")
    ] = 5
    cluster_monitor_grace_period: Annotated[
        Grace, Meta(description="Seconds without a heartbeat after which a Pull cluster is Ready=Unknown.")
    ] = 40
    cluster_startup_grace_period: Annotated[
        Grace,
        Meta(
            description="Seconds from joining after which a Pull cluster that never sent a heartbeat is Ready=Unknown."
        ),
    ] = 60
    cluster_lease_duration: Annotated[
        Grace, Meta(description="Seconds for which the lease of a Pull member's agent is valid.")
    ] = 40
    cluster_lease_renew_fraction: Annotated[
        float,
        Meta(ge=0.01, le=0.9, description="Part of `cluster_lease_duration` after which the agent renews its lease."),
    ] = 0.25
    auto_no_schedule_taints: Annotated[
        bool,
        Meta(
            description="Add the NoSchedule taint `not-ready` or `unreachable` to a cluster as soon as its condition "
            "Ready is False or Unknown."
        ),
    ] = True
    failover_eviction_timeout: Annotated[
        Seconds,
        Meta(
            description="Seconds that a cluster is unhealthy before it gets a NoExecute taint. Read only if "
            "`compat.auto_no_execute_taints` is on."
        ),
    ] = 300
    resource_eviction_rate: Annotated[
        Rate, Meta(description="Evictions per second while few clusters are unhealthy. 0 stops evictions.")
    ] = 0.5
    secondary_resource_eviction_rate: Annotated[
        Rate,
        Meta(
            description="Evictions per second in a large fleet while more than `unhealthy_cluster_threshold` of its "
            "clusters are unhealthy."
        ),
    ] = 0.1
    unhealthy_cluster_threshold: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="Share of unhealthy clusters above which evictions slow down in a large fleet, and stop in a "
            "small fleet. 0.55 is 55 %.",
        ),
    ] = 0.55
    large_cluster_num_threshold: Annotated[
        int, Meta(ge=0, le=1_000_000, description="A fleet with more clusters than this is large.")
    ] = 10
    no_execute_taint_eviction_purge_mode: Annotated[
        Literal["Gracefully", "Directly"],
        Meta(description="Purge mode of evictions by NoExecute if the policy has no `failover.cluster`."),
    ] = "Gracefully"
    graceful_eviction_timeout: Annotated[
        Seconds, Meta(description="Seconds that an old copy waits for its replacement to be healthy.")
    ] = 600
    on_graceful_timeout: Annotated[
        Literal["Hold", "Purge"],
        Meta(
            description="What happens after `graceful_eviction_timeout`: `Hold` keeps the old copy and reports the "
            "eviction as stuck, `Purge` removes the copy."
        ),
    ] = "Hold"
    evict_plugins: Annotated[
        tuple[Literal["ResourceHealth", "ScheduledBack"], ...],
        Meta(
            description="Checks that may complete a graceful eviction. `ResourceHealth`: the replacement is healthy. "
            "`ScheduledBack`: the cluster is a target again. One of them is enough."
        ),
    ] = ("ResourceHealth", "ScheduledBack")
    directly_unreachable: Annotated[
        Literal["Wait", "Proceed"],
        Meta(
            description="Purge mode Directly, and the old cluster cannot be reached: `Wait` until it confirms that the "
            "old copy is gone, or `Proceed` without confirmation."
        ),
    ] = "Wait"
    drift: Annotated[
        Literal["Repair", "Report"], Meta(description="What is done about a field that was changed on a member.")
    ] = "Repair"
    state_preservation_on_missing: Annotated[
        Literal["Hold", "Proceed"],
        Meta(description="The state to preserve cannot be read: `Hold` the eviction, or `Proceed` without the state."),
    ] = "Hold"
    enable_cluster_resource_modeling: Annotated[
        bool, Meta(description="Read nodes and pods of members to compute their resource summary.")
    ] = True
    enable_scheduler_estimator: Annotated[
        bool,
        Meta(
            description="Estimate how many replicas fit on a cluster by its single nodes: what each has free, and "
            "whether the node selector, the node affinity and the tolerations of the workload select it. Off: only the "
            "sums and the resource models count."
        ),
    ] = False
    enable_empty_workload_propagation: Annotated[
        bool,
        Meta(
            description="Keep clusters that get none of the replicas as targets, so that the workload is propagated to "
            "them with 0 replicas. Off: such clusters are left out."
        ),
    ] = False
    skipped_propagating_namespaces: Annotated[
        tuple[str, ...],
        Meta(
            description="Namespaces whose resources are never propagated, as regular expressions (RE2) that match the "
            "whole name."
        ),
    ] = ("kube-.*",)
    compat: Compat = Compat()
    eviction: EvictionSettings = EvictionSettings()
    estimator: EstimatorSettings = EstimatorSettings()
    members: MemberSettings = MemberSettings()
    change_log: ChangeLogSettings = ChangeLogSettings()

    def gate(self, name: str) -> bool:
        """Return whether a feature gate is on. Raises KeyError for a gate that does not exist."""
        return self.feature_gates[name] if name in self.feature_gates else GATES[name]

    def runs(self, controller: str) -> bool:
        """Return whether a controller is enabled. `*` enables all, `name` that controller, `-name` disables it."""
        if f"-{controller}" in self.controllers:
            return False
        return controller in self.controllers or "*" in self.controllers


READ_AT_START = frozenset({"controllers", "cluster_lease_duration", "cluster_lease_renew_fraction", "members"})
"""Fields of `Settings` that a FailoverConfiguration cannot override."""

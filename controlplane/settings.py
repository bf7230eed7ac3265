"""Every switch with its unit and default, and where it comes from. Settings reach decisions as arguments, typed.

The environment gives defaults and secrets; the object FailoverConfiguration/default overrides what is marked R in
docs/settings.md at run time (`with_overrides`). `make check` compares that list with these fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from controlplane.apimachinery import addresses
from controlplane.apimachinery.meta import Struct
from controlplane.apimachinery.regex import whole

LONGEST = 1_000_000_000  # seconds, thirty years: a moment so much later than now still is one
SLOWEST, FASTEST = 0.000_001, 1_000_000  # resources per second, where it is not 0
DAY = 86_400  # seconds
# How long something is waited for: a user's "never" is some thirty years.
Seconds = Annotated[float, Meta(ge=0, le=LONGEST)]
# How often something is looked at: ten times a second keeps a process busy, and less than hourly sees nothing happen.
Period = Annotated[float, Meta(ge=0.1, le=3600)]
# How long something has to last to be believed, and how long silence is borne.
Threshold = Annotated[float, Meta(ge=0, le=DAY)]
Grace = Annotated[float, Meta(ge=1, le=DAY)]
Rate = Annotated[float, Meta(ge=0, le=FASTEST)]
WholeSeconds = Annotated[int, Meta(ge=0, le=LONGEST)]

GATES: Mapping[str, bool] = {
    "Failover": False,
    "StatefulFailoverInjection": False,
    "CustomizedClusterResourceModeling": True,
    "PropagateDeps": True,
    "PropagationPolicyPreemption": False,
    "WorkloadAffinity": False,
    "MultiplePodTemplatesScheduling": False,
}
# Accepted where older manuals name them, without effect, and answered with what replaces them (D17).
RETIRED_GATES: Mapping[str, str] = {
    "GracefulEviction": "graceful eviction is chosen per policy with spec.failover.cluster.purgeMode",
}


class SettingError(ValueError):
    """A setting that cannot be: the message names setting, value, rule and an example."""


class Compat(Struct, frozen=True):
    """Behaviour of earlier generations, off by default (D1, D2, D12, D20)."""

    auto_no_execute_taints: bool = False
    default_not_ready_toleration_seconds: WholeSeconds | None = None  # None: nothing is injected
    default_unreachable_toleration_seconds: WholeSeconds | None = None
    terminating_taint: bool = False
    cluster_eviction_filter: bool = False


class EvictionSettings(Struct, frozen=True):
    """How the eviction queue behaves (D6, D7, D10)."""

    bucket_scope: Literal["Fleet", "Cluster"] = "Fleet"
    ageing_seconds: Annotated[float, Meta(ge=1, le=LONGEST)] = 300
    reevaluate_policies: bool = False
    require_full_replacement: bool = False
    partial_refuge: bool = True


class EstimatorSettings(Struct, frozen=True):
    """How free replicas are computed from resource models (D16)."""

    model_formula: Literal["Optimistic", "Strict", "Simulate"] = "Optimistic"


Bytes = Annotated[int, Meta(ge=1_048_576, le=1_073_741_824)]


class MemberSettings(Struct, frozen=True):
    """Which addresses of members may be called, as networks in CIDR notation, and how much members may send."""

    refused_addresses: tuple[str, ...] = addresses.REFUSED
    allowed_addresses: tuple[str, ...] = ()
    answer_bytes: Bytes = 8_388_608
    watch_bytes: Bytes = 268_435_456


class ChangeLogSettings(Struct, frozen=True):
    """What the change log keeps. Its oldest partition is dropped as soon as one of these limits is passed."""

    keep_seconds: Annotated[float, Meta(ge=3600, le=LONGEST)] = 2_592_000
    keep_versions: Annotated[int, Meta(ge=1_000_000, le=1_000_000_000_000)] = 20_000_000
    keep_bytes: Annotated[int, Meta(ge=100_000_000, le=1_000_000_000_000_000)] | None = None  # None: any size


class Settings(Struct, frozen=True):
    """All settings. Times are seconds, rates are resources per second."""

    feature_gates: dict[str, bool] = msgspec.field(default_factory=lambda: dict(GATES))
    controllers: tuple[str, ...] = ("*",)
    cluster_status_update_frequency: Period = 10
    cluster_success_threshold: Threshold = 30
    cluster_failure_threshold: Threshold = 30
    cluster_monitor_period: Period = 5
    cluster_monitor_grace_period: Grace = 40
    cluster_startup_grace_period: Grace = 60
    cluster_lease_duration: Grace = 40
    cluster_lease_renew_fraction: Annotated[float, Meta(ge=0.01, le=0.9)] = 0.25
    auto_no_schedule_taints: bool = True
    failover_eviction_timeout: Seconds = 300
    resource_eviction_rate: Rate = 0.5
    secondary_resource_eviction_rate: Rate = 0.1
    unhealthy_cluster_threshold: Annotated[float, Meta(ge=0, le=1)] = 0.55
    large_cluster_num_threshold: Annotated[int, Meta(ge=0, le=1_000_000)] = 10
    no_execute_taint_eviction_purge_mode: Literal["Gracefully", "Directly"] = "Gracefully"
    graceful_eviction_timeout: Seconds = 600
    on_graceful_timeout: Literal["Hold", "Purge"] = "Hold"
    evict_plugins: tuple[Literal["ResourceHealth", "ScheduledBack"], ...] = ("ResourceHealth", "ScheduledBack")
    directly_unreachable: Literal["Wait", "Proceed"] = "Wait"
    state_preservation_on_missing: Literal["Hold", "Proceed"] = "Hold"
    enable_cluster_resource_modeling: bool = True
    enable_empty_workload_propagation: bool = False
    skipped_propagating_namespaces: tuple[str, ...] = ("kube-.*",)
    compat: Compat = Compat()
    eviction: EvictionSettings = EvictionSettings()
    estimator: EstimatorSettings = EstimatorSettings()
    members: MemberSettings = MemberSettings()
    change_log: ChangeLogSettings = ChangeLogSettings()

    def gate(self, name: str) -> bool:
        """Return whether a feature gate is on. Raises KeyError for a gate that does not exist."""
        return self.feature_gates[name] if name in self.feature_gates else GATES[name]

    def runs(self, controller: str) -> bool:
        """Return whether a controller is enabled: `*` enables all, `name` that one, `-name` disables it."""
        if f"-{controller}" in self.controllers:
            return False
        return controller in self.controllers or "*" in self.controllers


# Read at start only; everything else may be overridden at run time.
FIXED = frozenset({"controllers", "cluster_lease_duration", "cluster_lease_renew_fraction", "members"})


def parse_gates(text: str) -> tuple[dict[str, bool], list[str]]:
    """Return the gates of "Failover=true,…" and warnings about retired ones. Raises SettingError for unknown gates."""
    gates, warnings = dict(GATES), []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or value.lower() not in ("true", "false"):
            raise SettingError(f'feature_gates: "{part}" is not name=true or name=false; write e.g. Failover=true')
        if name in RETIRED_GATES:
            warnings.append(f"feature gate {name} has no effect: {RETIRED_GATES[name]}")
        elif name not in GATES:
            raise SettingError(f'feature_gates: unknown gate "{name}"; known are {", ".join(sorted(GATES))}')
        else:
            gates[name] = value.lower() == "true"
    return gates, warnings


def with_overrides(base: Settings, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings with a FailoverConfiguration's spec (camelCase, partial) laid over them.

    Raises SettingError where a value cannot be, naming field, value and rule.
    """
    return checked(merged(base, overrides))


def merged(base: Settings, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as plain values, in camelCase, with others laid over them. Raises SettingError for what is
    no setting, or none that changes at run time."""
    known = {field.encode_name: field.name for field in msgspec.structs.fields(Settings)}
    for name in overrides:
        if name not in known:
            raise SettingError(f"spec.{name}: unknown setting; known are {', '.join(sorted(known))}")
        if known[name] in FIXED:
            raise SettingError(f"spec.{name}: is read at start only; set it in the environment and restart")
    return _laid_over(msgspec.to_builtins(base), overrides)


def _laid_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    laid = {
        name: _laid_over(base.get(name) or {}, value) if isinstance(value, Mapping) else value
        for name, value in over.items()
    }
    return {**base, **laid}


class Broken(NamedTuple):
    """A rule between settings, or within one, that does not hold. `settings`: those it is about, camelCase; the first
    is the one to change, and has the value."""

    settings: tuple[str, ...]
    value: Any
    rule: str


def broken(values: Mapping[str, Any]) -> Iterator[Broken]:
    """Yield every rule that settings (camelCase, each of its type) break."""
    gates, one = values.get("featureGates", {}), msgspec.convert(values, Settings)
    unknown = sorted(set(gates) - set(GATES) - set(RETIRED_GATES))
    if unknown:
        yield Broken(("featureGates",), unknown[0], f"unknown gate; known are {', '.join(sorted(GATES))}")
    slower, faster = "secondaryResourceEvictionRate", "resourceEvictionRate"
    if one.secondary_resource_eviction_rate > one.resource_eviction_rate:
        rule = f"must not exceed {faster} ({one.resource_eviction_rate}): it is the slower tier (D8)"
        yield Broken((slower, faster), one.secondary_resource_eviction_rate, rule)
    for name, rate in ((faster, one.resource_eviction_rate), (slower, one.secondary_resource_eviction_rate)):
        if 0 < rate < SLOWEST:
            yield Broken((name,), rate, f"must be at least {SLOWEST:f}, or 0 to stop evictions")
    for pattern in one.skipped_propagating_namespaces:
        try:
            whole(pattern)
        except ValueError as error:
            rule = f"{error}; write e.g. kube-.*"
            yield Broken(("skippedPropagatingNamespaces",), pattern, rule)
    for name, texts in (
        ("refusedAddresses", one.members.refused_addresses),
        ("allowedAddresses", one.members.allowed_addresses),
    ):
        for text in texts:
            try:
                addresses.networks((text,))
            except ValueError as error:
                yield Broken((f"members.{name}",), text, f"is no network: {error}; write e.g. 10.0.0.0/8")
    if not one.evict_plugins:
        yield Broken(("evictPlugins",), [], "must name at least one of ResourceHealth, ScheduledBack (D12)")


def checked(values: Mapping[str, Any]) -> Settings:
    """Return typed settings. Raises SettingError where types, ranges or the rules between settings do not hold."""
    try:
        settings = msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise SettingError(f"settings: {error}") from None
    found = [f"{one.settings[0]}: {_shown(one.value)} {one.rule}" for one in broken(msgspec.to_builtins(settings))]
    if found:
        raise SettingError("; ".join(found))
    return settings


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()

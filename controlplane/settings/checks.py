"""Settings from plain values: the rules that they keep, and the overrides of a FailoverConfiguration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from controlplane.apimachinery import addresses
from controlplane.apimachinery.regex import full_match
from controlplane.settings import GATES, MIN_RATE, READ_AT_START, RETIRED_GATES, Settings


class SettingError(ValueError):
    """A setting has an invalid value. The message names the setting, the value, the rule and an example."""


def parse_gates(text: str) -> tuple[dict[str, bool], list[str]]:
    """Return the gates of a text such as "Failover=true,…", and a warning for each retired gate.

    Raises SettingError for an unknown gate, and for a part that is not name=true or name=false.
    """
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
    """Return the settings with the spec of a FailoverConfiguration (camelCase, partial) applied to them.

    Raises SettingError for an invalid value, naming field, value and rule.
    """
    return checked(merged(base, overrides))


def merged(base: Settings, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as plain values, in camelCase, with the overrides applied. Values are not checked.

    Raises SettingError for an override that is not a setting, and for one of a setting that is read at start only.
    """
    known = {field.encode_name: field.name for field in msgspec.structs.fields(Settings)}
    for name in overrides:
        if name not in known:
            raise SettingError(f"spec.{name}: unknown setting; known are {', '.join(sorted(known))}")
        if known[name] in READ_AT_START:
            raise SettingError(f"spec.{name}: is read at start only; set it in the environment and restart")
    return _merged_deep(msgspec.to_builtins(base), overrides)


def _merged_deep(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    changed = {
        name: _merged_deep(base.get(name) or {}, value) if isinstance(value, Mapping) else value
        for name, value in overrides.items()
    }
    return {**base, **changed}


class BrokenRule(NamedTuple):
    """A rule about one or several settings that does not hold.

    `settings` are the settings of the rule in camelCase. The first is the setting to change, and `value` is its value.
    """

    settings: tuple[str, ...]
    value: Any
    rule: str


def broken_rules(values: Mapping[str, Any]) -> Iterator[BrokenRule]:
    """Yield every rule that settings break. `values` are in camelCase, each of the type of its setting."""
    gates, settings = values.get("featureGates", {}), msgspec.convert(values, Settings)
    unknown = sorted(set(gates) - set(GATES) - set(RETIRED_GATES))
    if unknown:
        yield BrokenRule(("featureGates",), unknown[0], f"unknown gate; known are {', '.join(sorted(GATES))}")
    yield from _broken_rates(settings)
    for pattern in settings.skipped_propagating_namespaces:
        try:
            full_match(pattern)
        except ValueError as error:
            yield BrokenRule(("skippedPropagatingNamespaces",), pattern, f"{error}; write e.g. kube-.*")
    for name, texts in (
        ("refusedAddresses", settings.members.refused_addresses),
        ("allowedAddresses", settings.members.allowed_addresses),
    ):
        for text in texts:
            try:
                addresses.networks((text,))
            except ValueError as error:
                yield BrokenRule((f"members.{name}",), text, f"is not a network: {error}; write e.g. 10.0.0.0/8")
    if not settings.evict_plugins:
        yield BrokenRule(("evictPlugins",), [], "must name at least one of ResourceHealth, ScheduledBack")


def _broken_rates(settings: Settings) -> Iterator[BrokenRule]:
    primary, secondary = settings.resource_eviction_rate, settings.secondary_resource_eviction_rate
    if secondary > primary:
        rule = f"must not exceed resourceEvictionRate ({primary}), because it is the slower of the two rates"
        yield BrokenRule(("secondaryResourceEvictionRate", "resourceEvictionRate"), secondary, rule)
    for name, rate in (("resourceEvictionRate", primary), ("secondaryResourceEvictionRate", secondary)):
        if 0 < rate < MIN_RATE:
            yield BrokenRule((name,), rate, f"must be at least {MIN_RATE:f}, or 0 to stop evictions")


def checked(values: Mapping[str, Any]) -> Settings:
    """Return typed settings from plain values. Raises SettingError for a wrong type, a value out of range, or a rule
    that is broken."""
    try:
        settings = msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        raise SettingError(f"settings: {error}") from None
    messages = [
        f"{broken.settings[0]}: {msgspec.json.encode(broken.value).decode()} {broken.rule}"
        for broken in broken_rules(msgspec.to_builtins(settings))
    ]
    if messages:
        raise SettingError("; ".join(messages))
    return settings

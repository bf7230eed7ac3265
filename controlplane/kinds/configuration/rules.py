"""Validation and warnings of a FailoverConfiguration: known settings that can change at run time, and valid values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controlplane.apimachinery.causes import forbidden, invalid
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.settings import GATES, READ_AT_START, RETIRED_GATES, Settings
from controlplane.settings.checks import broken_rules, merged

GATES_FIELD = "spec.featureGates"


def validate(new: FailoverConfiguration, old: FailoverConfiguration | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse a configuration. Rules between settings are checked for valid values only."""
    causes = []
    if new.metadata.name != NAME:
        message = f'"{new.metadata.name}" is never read: use the name {NAME}'
        causes.append(Cause("FieldValueInvalid", message, "metadata.name"))
    field_causes = list(_field_causes(new.spec, Settings, "spec"))
    wrong = {name for name in new.spec if any(cause.field.startswith(f"spec.{name}") for cause in field_causes)}
    rest = {name: value for name, value in new.spec.items() if name not in wrong}
    rules = [broken for broken in broken_rules(merged(settings, rest)) if wrong.isdisjoint(broken.settings)]
    causes += field_causes
    return [*causes, *(invalid(f"spec.{broken.settings[0]}", broken.value, broken.rule) for broken in rules)]


def warn(new: FailoverConfiguration, old: FailoverConfiguration | None, settings: Settings) -> list[str]:
    """Return warnings about feature gates that have no effect [failover-gate]."""
    gates = new.spec.get("featureGates") or {}
    return [f"feature gate {name} has no effect: {why}" for name, why in RETIRED_GATES.items() if name in gates]


def _field_causes(values: Mapping[str, Any], of: type[msgspec.Struct], path: str) -> Iterator[Cause]:
    """Yield the causes to refuse fields: unknown settings, settings that are read at start only, and invalid values."""
    known = {item.encode_name: item for item in msgspec.structs.fields(of)}
    for name, value in values.items():
        field, inner = known.get(name), f"{path}.{name}"
        if field is None:
            yield _unknown(inner, "setting", (entry for entry in known if known[entry].name not in READ_AT_START))
        elif field.name in READ_AT_START:
            yield forbidden(inner, "is read at start only; set it in the environment and restart")
        elif inner == GATES_FIELD and isinstance(value, Mapping):
            yield from _gates(value)
        elif isinstance(value, Mapping) and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _field_causes(value, field.type, inner)
        else:
            yield from _type_causes(value, field.type, inner)


def _gates(values: Mapping[str, Any]) -> Iterator[Cause]:
    for name, value in values.items():
        path = f"{GATES_FIELD}.{name}"
        if name not in GATES and name not in RETIRED_GATES:
            yield _unknown(path, "gate", GATES)
        else:
            yield from _type_causes(value, bool, path)


def _unknown(path: str, what: str, known: Iterable[str]) -> Cause:
    return Cause("FieldValueNotSupported", f"unknown {what}; known are {', '.join(sorted(known))}", path)


def _type_causes(value: Any, type_: Any, path: str) -> Iterator[Cause]:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        text, _, inner = str(error).partition(" - at `$")
        inner = inner.rstrip("`")
        found = value[int(inner[1:-1])] if inner.startswith("[") and inner[1:-1].isdecimal() else value
        yield invalid(f"{path}{inner}", found, text.replace("`", ""))

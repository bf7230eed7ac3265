"""What a FailoverConfiguration may say: one object, settings that exist, values they allow (settings.md, column R)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from controlplane.apimachinery.causes import forbidden, invalid
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.settings import GATES, READ_AT_START, RETIRED_GATES, Settings, broken_rules, merged

GATES_FIELD = "spec.featureGates"


def validate(new: FailoverConfiguration, old: FailoverConfiguration | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong: each value by itself, then the rules between those that are none."""
    causes = []
    if new.metadata.name != NAME:
        message = f'"{new.metadata.name}" is never read: the one object is called {NAME}'
        causes.append(Cause("FieldValueInvalid", message, "metadata.name"))
    misfits = list(_misfits(new.spec, Settings, "spec"))
    wrong = {name for name in new.spec if any(one.field.startswith(f"spec.{name}") for one in misfits)}
    rest = {name: value for name, value in new.spec.items() if name not in wrong}
    rules = [one for one in broken_rules(merged(settings, rest)) if wrong.isdisjoint(one.settings)]
    return [*causes, *misfits, *(invalid(f"spec.{one.settings[0]}", one.value, one.rule) for one in rules)]


def warn(new: FailoverConfiguration, old: FailoverConfiguration | None, settings: Settings) -> list[str]:
    """Return what is accepted and has no effect (D17)."""
    gates = new.spec.get("featureGates") or {}
    return [f"feature gate {name} has no effect: {why}" for name, why in RETIRED_GATES.items() if name in gates]


def _misfits(said: Mapping[str, Any], of: type[msgspec.Struct], path: str) -> Iterator[Cause]:
    """Yield what is no setting, is none to change at run time, or has a value that cannot be."""
    known = {one.encode_name: one for one in msgspec.structs.fields(of)}
    for name, value in said.items():
        field, place = known.get(name), f"{path}.{name}"
        if field is None:
            yield _unknown(place, "setting", (one for one in known if known[one].name not in READ_AT_START))
        elif field.name in READ_AT_START:
            yield forbidden(place, "is read at start only; set it in the environment and restart")
        elif place == GATES_FIELD and isinstance(value, Mapping):
            yield from _gates(value)
        elif isinstance(value, Mapping) and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _misfits(value, field.type, place)
        else:
            yield from _misfit(value, field.type, place)


def _gates(said: Mapping[str, Any]) -> Iterator[Cause]:
    for name, value in said.items():
        place = f"{GATES_FIELD}.{name}"
        if name not in GATES and name not in RETIRED_GATES:
            yield _unknown(place, "gate", GATES)
        else:
            yield from _misfit(value, bool, place)


def _unknown(place: str, what: str, known: Iterable[str]) -> Cause:
    return Cause("FieldValueNotSupported", f"unknown {what}; known are {', '.join(sorted(known))}", place)


def _misfit(value: Any, type_: Any, place: str) -> Iterator[Cause]:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        text, _, inner = str(error).partition(" - at `$")
        inner = inner.rstrip("`")
        found = value[int(inner[1:-1])] if inner.startswith("[") and inner[1:-1].isdecimal() else value
        yield invalid(f"{place}{inner}", found, text.replace("`", ""))

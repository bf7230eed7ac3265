"""What a FailoverConfiguration may say: one object, settings that exist, values they allow (settings.md, column R)."""

from __future__ import annotations

import re
from typing import Any

from controlplane.errors import Cause
from controlplane.kinds.configuration import NAME, FailoverConfiguration
from controlplane.settings import SettingError, Settings, with_overrides

# msgspec ends its messages with where the value is; settings rules begin with the setting's name.
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"^(?:spec\.)?(?P<path>[a-z][A-Za-z.]*): ")


def validate(new: FailoverConfiguration, old: FailoverConfiguration | None, settings: Settings) -> list[Cause]:
    """Return everything that is wrong: where the settings together fail, each is tried by itself to name all causes."""
    causes = []
    if new.metadata.name != NAME:
        message = f'"{new.metadata.name}" is never read: the one object is called {NAME}'
        causes.append(Cause("FieldValueInvalid", message, "metadata.name"))
    whole = _tried(new.spec, settings)
    if whole is None:
        return causes
    each = [cause for name, value in new.spec.items() if (cause := _tried({name: value}, settings)) is not None]
    return causes + (each or [whole])


def _tried(overrides: dict[str, Any], base: Settings) -> Cause | None:
    try:
        with_overrides(base, overrides)
    except SettingError as error:
        message = str(error).removeprefix("settings: ")
        at, named = _AT.search(message), _NAMED.match(message)
        path = at["path"] if at else named["path"] if named else next(iter(overrides), "")
        text = _AT.sub("", message) if at else message[named.end() :] if named else message
        reason = "FieldValueNotSupported" if "unknown" in text else "FieldValueInvalid"
        return Cause(reason, f"{text} (it says {_value(overrides, path)!r})" if at else text, f"spec.{path}")
    return None


def _value(overrides: dict[str, Any], path: str) -> Any:
    value: Any = overrides
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value

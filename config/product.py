"""The settings of the product, read from environment variables: `LIFEBOAT_EVICTION_AGEING_SECONDS`."""

from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from config import controllers
from config.env import EnvironmentInvalid
from controlplane.settings import Settings
from controlplane.settings.checks import SettingError, checked, parse_gates
from controlplane.settings.listing import Setting, all_settings

PREFIX = "LIFEBOAT_"
GATES_SETTING = "feature_gates"
CONTROLLERS_SETTING = "controllers"
# Flags of earlier releases that are accepted without effect, and what replaces each.
RETIRED: Mapping[str, str] = {
    "ENABLE_TAINT_MANAGER": "feature gate Failover decides whether taints evict",
    "ENABLE_NO_EXECUTE_TAINT_EVICTION": "feature gate Failover decides whether NoExecute evicts",
    "ALLOW_NO_EXECUTE_TAINT_POLICY": "NoExecute is always allowed in a ClusterTaintPolicy; it evicts nothing while "
    "feature gate Failover is off",
}


def variable(setting: Setting) -> str:
    """Return the environment variable of a setting: LIFEBOAT_EVICTION_AGEING_SECONDS of eviction.ageing_seconds."""
    return PREFIX + setting.name.upper().replace(".", "_")


def variables() -> set[str]:
    """Return all variables that `from_environment` reads or accepts without effect."""
    return {variable(setting) for setting in all_settings()} | {PREFIX + name for name in RETIRED}


def from_environment(environ: Mapping[str, str]) -> tuple[Settings, list[str]]:
    """Return the settings, and warnings about variables that have no effect.

    Raises EnvironmentInvalid, which names the variable, the value and an example.
    """
    values: dict[str, Any] = {}
    warnings = [f"{PREFIX}{name} has no effect: {why}" for name, why in RETIRED.items() if PREFIX + name in environ]
    for setting in all_settings():
        text = environ.get(variable(setting), "").strip()
        if setting.name == GATES_SETTING and not text:
            text = environ.get("FEATURE_GATES", "").strip()  # as Karmada's manual writes it [failover-gate]
        if not text:
            continue
        *outer, last = setting.path
        within = values
        for name in outer:
            within = within.setdefault(name, {})
        within[last] = _read(setting, text, warnings)
    try:
        return checked(values), warnings
    except SettingError as error:
        raise EnvironmentInvalid(f"environment: {error}") from error


def shown(value: Any) -> str:
    """Return a value as it is written in the environment. "": the value is None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={shown(inner)}" for name, inner in value.items())
    if isinstance(value, tuple):
        return ",".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def allowed(kind: Any) -> str:
    """Return the values that the type of a setting allows, for documents. "": its description has them."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is bool:
        return "true, false"
    if origin is Annotated:
        limits = parts[1]
        return f"{_number(limits.ge)} to {_number(limits.le)}"
    if origin is Literal:
        return ", ".join(parts)
    if origin in (UnionType, Union):
        return f"{allowed(parts[0])}, unset"
    return allowed(parts[0]) if origin is tuple else ""


def _number(value: float) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"


def _read(setting: Setting, text: str, warnings: list[str]) -> Any:
    try:
        if setting.name == GATES_SETTING:
            gates, retired = parse_gates(text)
            warnings += retired
            return gates
        if get_origin(setting.type) is tuple:
            words = tuple(word.strip() for word in text.split(",") if word.strip())
            if setting.name == CONTROLLERS_SETTING:
                return controllers.resolved(words)
            return msgspec.convert(words, setting.type)
        return msgspec.convert(text, setting.type, strict=False)
    except (SettingError, msgspec.ValidationError) as error:
        choices = [str(choice) for choice in get_args(setting.type) if isinstance(choice, str)]
        example = choices[0] if choices else shown(setting.default) or "300"
        raise EnvironmentInvalid(
            f'{variable(setting)}="{text}": {error}; e.g. {variable(setting)}={example}'
        ) from error

"""FailoverConfiguration (failover.lifeboat.io/v1alpha1): settings that change at run time; one object, `default`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from controlplane.apimachinery.meta import Object
from controlplane.settings import Settings
from controlplane.settings.listing import Setting, all_settings

FAILOVER_CONFIGURATION = "failover.lifeboat.io/FailoverConfiguration"
NAME = "default"
"""The name of the only FailoverConfiguration that is read."""


class FailoverConfiguration(Object, frozen=True):
    """Overrides settings while everything runs. The settings it can override have an R in docs/settings.md. Only the
    object with the name default is read, within a second of a change."""

    # Only the settings that are overridden, in camelCase. `settings.with_overrides` checks and applies them.
    spec: dict[str, Any] = {}


def _overrides() -> type[msgspec.Struct]:
    """Return a type with every setting that can be overridden as an optional field with its description."""
    groups: dict[str, list[Setting]] = {}
    fields: list[tuple[str, Any, Any]] = []
    for setting in all_settings():
        group, _, name = setting.name.rpartition(".")
        if setting.read_at_start:
            continue
        if group:
            groups.setdefault(group, []).append(setting)
        else:
            fields.append(_optional(name, setting.type, setting.description))
    for group, settings in groups.items():
        of_group = type(getattr(Settings(), group))
        inner = [_optional(item.name.rpartition(".")[2], item.type, item.description) for item in settings]
        type_ = msgspec.defstruct(f"{of_group.__name__}Overrides", inner, frozen=True, rename="camel")
        fields.append(_optional(group, type_, of_group.__doc__ or ""))
    return msgspec.defstruct("SettingsOverrides", fields, frozen=True, rename="camel")


def _optional(name: str, type_: Any, description: str) -> tuple[str, Any, Any]:
    """Return a field that may be left out. Its description loses the Markdown, because kubectl prints plain text."""
    return name, Annotated[type_ | None, Meta(description=description.replace("`", ""))], None


EXPLAINED = msgspec.defstruct(
    "FailoverConfiguration",
    [("spec", Annotated[_overrides() | None, Meta(description="Settings that differ from the environment.")], None)],
    bases=(Object,),
    frozen=True,
    namespace={"__doc__": FailoverConfiguration.__doc__},
)
"""FailoverConfiguration with every setting as a field of its own, from which its schema is made."""

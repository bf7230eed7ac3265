"""The admin's page of the settings in force, with where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from django.http import HttpRequest

from apps.objects.configuration import REF, base, configuration
from apps.objects.store import store
from config import env
from config.product import GATES_SETTING, shown, variable
from controlplane.settings import Settings
from controlplane.settings.listing import Setting, all_settings

DEFAULT, ENVIRONMENT, CONFIGURATION = "default", "environment", "FailoverConfiguration/default"


class SettingLine(NamedTuple):
    """A setting: its value in force, where the value comes from, and how it is changed."""

    name: str
    value: str
    source: str
    otherwise: str  # the value without this source
    change: str
    description: str


def context(request: HttpRequest) -> dict[str, Any]:
    """Return the variables of the page."""
    settings = configuration().settings(reread=True)
    stored = store().get([REF]).get(REF)
    lines = lines_of(settings, {} if stored is None else stored.spec, env.variables())
    return {
        "title": "Settings in force",
        "changed": [line for line in lines if line.source != DEFAULT],
        "others": [line for line in lines if line.source == DEFAULT],
        "held": configuration().held(),
    }


def lines_of(settings: Settings, overrides: Mapping[str, Any], environment: Mapping[str, str]) -> list[SettingLine]:
    """Return a line for each setting. `overrides`: the spec of FailoverConfiguration/default."""
    return [_line(setting, settings, overrides, environment) for setting in all_settings()]


def _line(
    setting: Setting, settings: Settings, overrides: Mapping[str, Any], environment: Mapping[str, str]
) -> SettingLine:
    where: Any = overrides
    for name in setting.path:
        where = where.get(name) if isinstance(where, Mapping) else None
    names = (variable(setting), *(("FEATURE_GATES",) if setting.name == GATES_SETTING else ()))
    given = next((name for name in names if environment.get(name, "").strip()), "")
    source = CONFIGURATION if where is not None else f"{ENVIRONMENT} {given}" if given else DEFAULT
    field = "spec." + ".".join(setting.path)
    change = f"{names[0]}, and a restart" if setting.read_at_start else f"{field} of FailoverConfiguration/default"
    value, otherwise = attrgetter(setting.name)(settings), setting.default
    if where is not None:
        otherwise = attrgetter(setting.name)(base())
    texts = (shown(value) or "unset", source, shown(otherwise) or "unset")
    return SettingLine(setting.name, *texts, change, setting.description)

"""The tables of docs/settings.md, made from the settings and the names of controllers in the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from config import controllers
from config.product import allowed, shown
from controlplane.settings.listing import all_settings

_TABLE: Final = re.compile(r"(<!-- table: (\w+), written by make docs -->\n)(?:\|.*\n)*")


def with_tables(document: str) -> str:
    """Return a document with each table below a mark `<!-- table: name, written by make docs -->` made from the code.

    Raises KeyError for a mark with an unknown name.
    """
    tables = {"settings": _settings, "controllers": _controllers}
    return _TABLE.sub(lambda mark: mark[1] + "".join(f"| {' | '.join(row)} |\n" for row in tables[mark[2]]()), document)


def _settings() -> Iterator[tuple[str, ...]]:
    yield ("Setting", "Default", "Allowed", "R", "Description")
    yield ("---",) * 5
    for setting in all_settings():
        default = shown(setting.default) or "unset"
        at_run_time = "" if setting.read_at_start else "R"
        yield f"`{setting.name}`", f"`{default}`", allowed(setting.type), at_run_time, setting.description


def _controllers() -> Iterator[tuple[str, ...]]:
    yield ("Name in Karmada", "Controllers here")
    yield ("---",) * 2
    for name, ours in controllers.ALIASES.items():
        yield f"`{name}`", ", ".join(f"`{controller}`" for controller in ours)

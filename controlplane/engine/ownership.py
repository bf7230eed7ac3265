"""Who writes what: the ownership table of docs, made of what the controllers declare and `apply` holds them to."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable

from controlplane.engine.controller import Controller

MANY = 4  # kinds of keys that are named; more are counted
NONE = "–"

_HEAD = """# Who writes what

Made by `manage.py ownership > docs/ownership.md` from what the controllers declare. `apply` refuses everything else, so
the table is a rule and not a description. Users may write what admission lets them. A row-native value has no version
and no place in the change log; the last writer wins.

| Controller | Group, shards | Keys | Writes | Row-native values |
|---|---|---|---|---|
"""


def ownership(controllers: Iterable[Controller]) -> str:
    """Return the document, Markdown."""
    found = list(controllers)
    rows = "".join(_row(one) for one in found)
    return f"{_HEAD}{rows}\n{''.join(_purpose(one) for one in found)}"


def _row(controller: Controller) -> str:
    alike: dict[tuple[str, ...], list[str]] = {}
    for kind, parts in controller.owns.kinds.items():
        alike.setdefault(parts, []).append("templates" if kind == "*" else _short(kind))
    writes = "; ".join(
        f"{', '.join(kinds)}: {', '.join(f'`{part}`' for part in parts)}" for parts, kinds in alike.items()
    )
    shards = f", {controller.shards}" if controller.shards > 1 else ""
    keys = ", ".join(map(_short, controller.keys[:MANY]))
    if len(controller.keys) > MANY:
        keys += f" and {len(controller.keys) - MANY} more"
    rows = ", ".join(type_.__name__ for type_ in controller.owns.rows)
    cells = (f"`{controller.name}`", f"{controller.group}{shards}", keys or "templates", writes or NONE, rows or NONE)
    return f"| {' | '.join(cells)} |\n"


def _purpose(controller: Controller) -> str:
    module = inspect.getdoc(sys.modules[type(controller).__module__]) or ""
    said = module.partition("\n\n")[0].replace("\n", " ")
    return f"- `{controller.name}`: {said.partition(': ')[2] or said}\n"


def _short(kind: str) -> str:
    return kind.rpartition("/")[2]

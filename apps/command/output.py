"""What the command prints: tables, JSON, YAML. Answers go to stdout, remarks and questions to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from apps.command import durations
from apps.command.errors import Document

UNLIMITED: Final = 100_000  # columns, where no terminal limits them: nothing is cut in a file or a pipe


class Output(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class RecordOutput(StrEnum):
    """How a record is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    MARKDOWN = "markdown"


# The colour of a word in a cell. The word itself is always printed, so colour is never the only sign.
_STYLES: Final = {
    **dict.fromkeys(("True", "Ready", "Normal", "Finished", "On", "Passed", "ok"), "green"),
    **dict.fromkeys(("False", "Unknown", "Failed", "Stopped", "Blind", "Blocks", "Abandoned", "failed"), "red"),
    **dict.fromkeys(("Held", "Paused", "Secondary", "Warns", "Recovering", "Off"), "yellow"),
}


def console(*, stderr: bool = False) -> Console:
    """Return a console. Colour and width are those of a terminal; NO_COLOR turns colours off."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = UNLIMITED
    return made


def structured(document: Any, how: str) -> str:
    """Return a document as JSON or YAML."""
    if how == Output.JSON:
        return json.dumps(document, indent=2, ensure_ascii=False)
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, now: datetime) -> Table:
    """Return a table as kubectl prints it: capital headings, no lines. Times show how long ago they were."""
    made = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for name in columns:
        made.add_column(name.upper(), no_wrap=True, overflow="ignore")
    for row in rows:
        made.add_row(*(_cell(value, now=now) for value in row))
    return made


def _cell(value: Any, *, now: datetime) -> Text:
    text = "" if value is None else durations.relative(str(value), now=now)
    return Text(text or "-", style=_STYLES.get(text, ""))


def rows_of(found: Document, *, wide: bool, namespaces: bool) -> tuple[list[str], list[list[Any]]]:
    """Return headings and rows of a Table of the API. `namespaces`: with the namespace of each object."""
    definitions = found.get("columnDefinitions") or []
    shown = [index for index, one in enumerate(definitions) if wide or not one.get("priority")]
    columns = [definitions[index]["name"] for index in shown]
    rows = [[row["cells"][index] for index in shown] for row in found.get("rows") or ()]
    if namespaces:
        columns = ["Namespace", *columns]
        names = [((row.get("object") or {}).get("metadata") or {}).get("namespace", "") for row in found["rows"] or ()]
        rows = [[name, *row] for name, row in zip(names, rows, strict=True)]
    return columns, rows

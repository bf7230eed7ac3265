"""What the command prints: tables, JSON, YAML. Answers go to stdout, remarks and questions to stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import yaml
from rich.console import Console

from apps.command.errors import Document
from apps.command.table import Table

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
    """Return a table as kubectl prints it."""
    return Table(columns, rows, now=now)


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

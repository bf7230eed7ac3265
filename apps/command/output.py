"""What the command prints: tables, JSON, YAML. Answers go to stdout, remarks and questions to stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import yaml
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from apps.command.errors import Document
from apps.command.table import Table

UNLIMITED: Final = 100_000  # columns, where no terminal limits them: nothing is cut in a file or a pipe
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


class VisibleConsole(Console):
    """A console that shows control characters instead of sending them: texts of users cannot command the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_text = not segment.control and _CONTROLS.search(segment.text)
            yield Segment(visible(segment.text), segment.style) if is_text else segment


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
    made = VisibleConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)
    if not made.is_terminal:
        made.width = UNLIMITED
    return made


def visible(text: str) -> str:
    """Return a text with its control characters as JSON writes them: \\u001b."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def structured(document: Any, how: str) -> str:
    """Return a document as JSON or YAML."""
    if how == Output.JSON:
        return json.dumps(document, indent=2, ensure_ascii=False)
    return yaml_text(document, width=120).rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """Writes every mapping as an object, also those of answers."""


_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)


def yaml_text(document: Any, *, width: int = 80) -> str:
    """Return a document as YAML, in blocks."""
    made = yaml.dump(
        document, Dumper=_Dumper, width=width, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return str(made)


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

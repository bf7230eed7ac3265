"""The tables of docs/command.md, from the code: `python -m tests.command.document` renews them (`make docs`)."""

from __future__ import annotations

import re

from typer.main import get_command

from apps.command import exit_codes
from apps.command.program import app
from tests.processes import PROJECT

PATH = PROJECT / "docs" / "command.md"


def with_tables(text: str) -> str:
    """Return the document with the tables of commands and exit codes as they are in the code."""
    group = get_command(app)
    commands = [f"| `{name}` | {(one.help or '').partition(chr(10))[0]} |" for name, one in group.commands.items()]  # type: ignore[attr-defined]
    codes = [f"| {one.code} | {one.name} | {one.meaning} |" for one in exit_codes.ALL]
    return _replaced(_replaced(text, "Commands", commands), "Exit codes", codes)


def _replaced(text: str, heading: str, rows: list[str]) -> str:
    """Return the text with other rows in the first table under a heading."""
    table = re.compile(rf"(## {heading}\n.*?\n\|(?:---\|)+\n)(?:\|[^\n]*\n)*", re.DOTALL)
    return table.sub(lambda found: found[1] + "".join(f"{row}\n" for row in rows), text, count=1)


if __name__ == "__main__":
    PATH.write_text(with_tables(PATH.read_text()))

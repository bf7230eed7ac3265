"""docs/command.md lists the commands and exit codes that there are."""

from __future__ import annotations

import re

from typer.main import get_command

from apps.command import exit_codes
from apps.command.program import app
from tests.command.document import PATH, with_tables


def test_the_tables_of_the_document_are_those_of_the_code() -> None:
    written = PATH.read_text()

    assert with_tables(written) == written, "run make docs-only"
    assert "| `queue` |" in written
    assert "| 130 | interrupted |" in written


def test_exit_codes_are_unique_and_every_command_is_explained() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]

    assert len({one.code for one in exit_codes.ALL}) == len(exit_codes.ALL)
    assert [name for name, one in commands.items() if not one.help] == []


def test_commands_that_the_document_shows_exist() -> None:
    used = set(re.findall(r"`lifeboat (\w+)", PATH.read_text()))

    assert used <= set(get_command(app).commands)  # type: ignore[attr-defined]

"""The table of acts in docs/console.md has every act of the console and every dangerous command, and no other."""

from __future__ import annotations

import re

from typer.main import get_command

from apps.command.program import app
from apps.console.guard import ActPage
from apps.console.urls import urlpatterns
from tests.processes import PROJECT

HARMLESS = {"join"}  # it adds a cluster; nothing moves


def column(number: int) -> set[str]:
    """Return what stands in a column of the table of acts."""
    text = (PROJECT / "docs" / "console.md").read_text().partition("### Acts and ways in")[2]
    table = text.partition("| Act |")[2].partition("\n\n")[0]
    cells = [line.split("|")[number] for line in table.splitlines()[2:]]
    return {found for cell in cells for found in re.findall("`([^`]+)`", cell)}


def test_the_table_of_acts_has_every_page_of_an_act() -> None:
    routes = {
        "/" + re.sub("<(?:str:)?", "<", str(one.pattern))
        for one in urlpatterns
        if issubclass(one.callback.view_class, ActPage)  # type: ignore[attr-defined]
    }

    assert column(2) == routes


def test_the_table_of_acts_has_every_dangerous_command() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    dangerous = {name for name, one in commands.items() if any("--yes" in known.opts for known in one.params)}

    assert column(3) == dangerous - HARMLESS

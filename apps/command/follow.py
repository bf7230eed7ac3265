"""Printing an answer again and again: in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

from rich.console import Group
from rich.live import Live
from rich.text import Text

from apps.command import exit_codes
from apps.command.errors import CommandError
from apps.command.run import Run

_AGES: Final = re.compile(r"^As of .*|\((?:in )?[0-9][0-9a-z]*(?: ago)?\)| +$", re.MULTILINE)
"""What changes in an answer although nothing has happened. The width of a column depends on it too."""


def follow(run: Run, answer: Callable[[], Any], *, every: float) -> None:
    """Print an answer once if `every` is 0, else every so many seconds until Ctrl-C.

    Where the output is not a terminal, an answer is printed only if it differs from the one before in more than ages.
    While the API does not answer, its last answer stays on a terminal, with the error below it.
    """
    if not every:
        run.say(answer())
        return
    answer = _repeated(run, answer)
    if run.out.is_terminal and not run.is_structured:
        with Live(answer(), console=run.out, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every)
                live.update(answer(), refresh=True)
    before = ""
    while True:
        with run.out.capture() as captured:
            run.say(answer())
        text = captured.get()
        if (said := _AGES.sub("", text)) != before:
            run.out.out(text, end="", highlight=False)
            before = said
        time.sleep(every)


def _repeated(run: Run, answer: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that returns answers. When the API is away after the first answer, it returns the last one."""
    last: Any = None
    away = ""

    def repeated() -> Any:
        nonlocal last, away
        try:
            last, away = answer(), ""
        except CommandError as error:
            if error.code != exit_codes.UNREACHABLE or last is None:
                raise
            if run.out.is_terminal and not run.is_structured:
                return Group(last, "", Text(f"{error.message}; above is its last answer", style="bold red"))
            if not away:
                run.remark(f"{error.message}; it is asked again", style="yellow")
            away = error.message
        return last

    return repeated

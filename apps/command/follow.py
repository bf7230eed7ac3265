"""Printing an answer again and again: in place on a terminal, one after the other elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.live import Live

from apps.command.run import Run


def follow(run: Run, answer: Callable[[], Any], *, every: int) -> None:
    """Print an answer once if `every` is 0, else every so many seconds until Ctrl-C.

    Where the output is not a terminal, an answer is printed only if it differs from the one before.
    """
    if not every:
        run.say(answer())
        return
    if run.out.is_terminal and not run.is_structured:
        with Live(answer(), console=run.out, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(every)
                live.update(answer(), refresh=True)
    before = ""
    while True:
        with run.out.capture() as captured:
            run.say(answer())
        if (text := captured.get()) != before:
            run.out.out(text, end="", highlight=False)
            before = text
        time.sleep(every)

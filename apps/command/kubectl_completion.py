"""The program `kubectl_complete-lifeboat`: kubectl asks it to complete `kubectl lifeboat …`.

kubectl passes the words after `lifeboat`; the last is being typed. The answer has a candidate on each line, with its
help after a tab, and a directive on the last line, as programs made with Cobra answer.
"""

from __future__ import annotations

import os
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from typing import Final

from apps.command.program import app, ordered
from apps.command.shell import COMPLETES, PROGRAM

FILES, NO_FILES = ":0", ":4"
"""Directives: whether the shell completes names of files as well."""
_AS_FISH: Final = {COMPLETES: "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}


def answer(words: list[str]) -> str:
    """Return the answer to kubectl. `words`: the last is incomplete, and may be empty.

    Candidates are those of the shell fish, because their lines have the help after a tab as well.
    """
    incomplete = words[-1] if words else ""
    line = f"{shlex.join([PROGRAM, *ordered(words[:-1])])} {shlex.quote(incomplete) if incomplete else ''}"
    os.environ.update({**_AS_FISH, "_TYPER_COMPLETE_ARGS": line})
    with redirect_stdout(StringIO()) as printed, suppress(SystemExit):
        app(prog_name=PROGRAM)
    lines = [found for found in printed.getvalue().splitlines() if found not in ("", incomplete)]
    return "\n".join([*lines, NO_FILES if lines else FILES])


def main() -> None:
    """Run the program."""
    sys.stdout.write(answer(sys.argv[1:]) + "\n")

"""The program: all commands in one app."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

import typer

from apps.command import (
    drills,
    fleet,
    importing,
    interpreting,
    membership,
    moving,
    queue,
    reading,
    shell,
    status,
    supposing,
    taints,
)

app = typer.Typer(
    name=shell.PROGRAM,
    help="Many Kubernetes clusters as one: what fails, what moves, when is it done, and how to stop it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: docs/command.md. Every command works through the API alone, with your kubeconfig.",
)
for _part in (
    status,
    fleet,
    queue,
    moving,
    drills,
    reading,
    supposing,
    interpreting,
    taints,
    membership,
    importing,
    shell,
):
    app.add_typer(_part.app)


# Options of every command that users of kubectl also write before the command, and whether a value follows.
_GLOBAL: Final = {
    **dict.fromkeys(("-n", "--namespace", "--context", "--kubeconfig", "-o", "--output"), True),
    **dict.fromkeys(("-A", "--all-namespaces"), False),
}


def ordered(arguments: Sequence[str]) -> list[str]:
    """Return arguments with the global options behind the command: `-n shop queue` becomes `queue -n shop`."""
    rest, moved = list(arguments), list[str]()
    while rest and rest[0].partition("=")[0] in _GLOBAL:
        option = rest[0]
        words = 2 if _GLOBAL[option.partition("=")[0]] and "=" not in option else 1
        moved += rest[:words]
        del rest[:words]
    return [*rest[:1], *moved, *rest[1:]]


def main() -> None:
    """Run the command."""
    app(ordered(sys.argv[1:]), prog_name=shell.PROGRAM)

"""The program: all commands in one app."""

from __future__ import annotations

import typer

from apps.command import (
    drills,
    fleet,
    importing,
    membership,
    moving,
    queue,
    reading,
    shell,
    situation,
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
for _part in (situation, fleet, queue, moving, drills, reading, supposing, taints, membership, importing, shell):
    app.add_typer(_part.app)


def main() -> None:
    """Run the command."""
    app(prog_name=shell.PROGRAM)

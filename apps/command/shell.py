"""Commands about the command itself: version, completion."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import get_completion_script

from apps.command.options import command
from apps.command.run import Run
from controlplane import __version__

app = typer.Typer()
PANEL: Final = "This command"
PROGRAM: Final = "lifeboat"
COMPLETES: Final = "_LIFEBOAT_COMPLETE"  # variable that makes the program complete instead of work


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


@command(app, panel=PANEL)
def version(
    run: Run, client: Annotated[bool, typer.Option("--client", help="Only the version of this command.")] = False
) -> None:
    """Show the version of this command and of the server."""
    found = {"client": __version__}
    if not client:
        found["server"] = run.api.get("/version")["gitVersion"]
    if not run.show(found):
        for name, number in found.items():
            run.say(f"{name}: {number}")


@command(app, panel=PANEL)
def completion(run: Run, shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the script that completes commands and cluster names: source <(lifeboat completion bash)"""
    run.out.out(get_completion_script(prog_name=PROGRAM, complete_var=COMPLETES, shell=shell.value))

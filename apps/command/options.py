"""Options that all commands have, and how a function becomes a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from apps.command import exit_codes
from apps.command.errors import CommandError
from apps.command.output import Output, RecordOutput
from apps.command.run import Run

Kubeconfig = Annotated[
    Path | None, typer.Option("--kubeconfig", help="The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.")
]
Context = Annotated[str, typer.Option("--context", help="The context of the kubeconfig. Default: the current one.")]
Namespace = Annotated[str, typer.Option("-n", "--namespace", help="The namespace. Default: that of the context.")]
Format = Annotated[Output, typer.Option("-o", "--output", help="How the answer is printed.")]
RecordFormat = Annotated[RecordOutput, typer.Option("-o", "--output", help="How the answer is printed.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would happen, and change nothing.")]
Reason = Annotated[str, typer.Option("--reason", help="The reason. The change log keeps it with your name.")]

_COMMON: dict[str, tuple[Any, Any]] = {
    "kubeconfig": (Kubeconfig, None),
    "context": (Context, ""),
    "namespace": (Namespace, ""),
    "output": (Format, Output.TABLE),
}
_DANGEROUS: dict[str, tuple[Any, Any]] = {"yes": (Yes, False), "dry_run": (DryRun, False), "reason": (Reason, "")}


def command(
    app: typer.Typer, *, panel: str, name: str = "", dangerous: bool = False, output: Any = Format
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to the app.

    The first argument of the function is the Run, the others are its own arguments and options. `panel`: the heading
    under which --help lists the command. `name` "": the function's name. `output`: the formats of -o. `dangerous`: the
    command also has --yes, --dry-run and --reason, and calls `run.confirm` before its act. Errors of the command are
    printed, and end it with their exit code.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        common = {**_COMMON, "output": (output, Output.TABLE if output is Format else RecordOutput.TABLE)}
        common |= _DANGEROUS if dangerous else {}

        def called(**given: Any) -> None:
            run = Run(**{key: given.pop(key) for key in common})
            try:
                function(run, **given)
            except CommandError as error:
                for line in error.lines():
                    run.remark(line, style="red" if line.startswith("error: ") else "")
                raise typer.Exit(error.code.code) from None
            except KeyboardInterrupt:
                raise typer.Exit(exit_codes.INTERRUPTED.code) from None

        signature = inspect.signature(function, eval_str=True)
        _, *own = signature.parameters.values()
        shared = [
            Parameter(key, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in common.items()
        ]
        parameters = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in own] + shared
        called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        called.__doc__ = function.__doc__
        app.command(name or function.__name__.replace("_", "-"), rich_help_panel=panel)(called)
        return function

    return add

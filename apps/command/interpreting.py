"""The command `interpret`: what the rules of a kind give for an object, before anything is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from apps.command import exit_codes, manifests, output, paths
from apps.command.errors import CommandError, Document
from apps.command.options import command
from apps.command.reading import PANEL
from apps.command.run import Run

app = typer.Typer()


@command(app, panel=PANEL)
def interpret(
    run: Run,
    file: Annotated[Path, typer.Option("-f", "--filename", help="The object, as YAML or JSON.")],
    operation: Annotated[
        list[str] | None, typer.Option("--operation", help="For example InterpretHealth. Repeatable. Default: all.")
    ] = None,
    customization: Annotated[
        Path | None, typer.Option("--customization", help="A ResourceInterpreterCustomization that is not stored yet.")
    ] = None,
    observed: Annotated[Path | None, typer.Option("--observed", help="For Retain: the object of the member.")] = None,
    replicas: Annotated[int | None, typer.Option("--replicas", help="For ReviseReplica: the number.")] = None,
    items: Annotated[
        Path | None,
        typer.Option("--items", help="For AggregateStatus: a list of clusterName and status."),
    ] = None,
) -> None:
    """Say what an object means: its replicas, health, dependencies and more, and which rule says it."""
    spec: Document = {"object": manifests.document(file)}
    if operation:
        spec["operations"] = operation
    if replicas is not None:
        spec["replicas"] = replicas
    for field, path in (("customization", customization), ("observed", observed), ("items", items)):
        if path is not None:
            spec[field] = manifests.document(path)
    body = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Interpretation", "spec": spec}
    found = run.api.post(paths.failover("interpretations"), body)
    if not run.show(found):
        for result in found["status"].get("results", ()):
            _print(run, result)
    if any(result.get("error") for result in found["status"].get("results", ())):
        raise CommandError("a rule failed", code=exit_codes.PROBLEM)


def _print(run: Run, result: Document) -> None:
    rule = result.get("rule") or "there is no rule"
    run.say(f"{result['operation']}: {rule}")
    if result.get("error"):
        run.say(f"  failed: {result['error']}")
    elif result.get("rule"):
        text = output.yaml_text(result.get("result")).removesuffix("...\n")
        run.say("\n".join(f"  {line}" for line in text.rstrip().splitlines()))

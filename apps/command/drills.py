"""The command `drill`: a game day, followed to its report."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from apps.command import durations, exit_codes, output, paths
from apps.command.completing import clusters
from apps.command.errors import Document
from apps.command.moving import PANEL, Rate, Timeout, Wait, labels_of
from apps.command.options import command
from apps.command.preview import preview
from apps.command.progress import State, followed
from apps.command.run import Run

app = typer.Typer()
OVER: Final = ("Finished", "Stopped")


@command(app, panel=PANEL, dangerous=True)
def drill(
    run: Run,
    names: Annotated[list[str], typer.Argument(help="The clusters, all at the same time.", autocompletion=clusters)],
    real: Annotated[bool, typer.Option("--real", help="Really drain them. They stay cordoned.")] = False,
    returns: Annotated[
        bool, typer.Option("--and-return", help="--real: afterwards uncordon them and return the workloads.")
    ] = False,
    within: Annotated[str, typer.Option(help="Time in which all workloads have to be moved.")] = "1h",
    without_place: Annotated[int, typer.Option(min=0, help="How many workloads may stay without a place.")] = 0,
    healthy: Annotated[int, typer.Option(min=0, help="--real: least number of healthy copies of a workload.")] = 1,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Count only workloads with these labels.")] = "",
    rate: Rate = 0.5,
    wait: Wait = True,
    timeout: Timeout = "12h",
) -> None:
    """Practise the loss of clusters, simulated or with a real drain, and report whether the criteria are met."""
    criteria = {
        "maxDurationSeconds": durations.seconds(within, option="--within"),
        "maxWithoutPlace": without_place,
        "minHealthyCopies": healthy,
    }
    spec: Document = {
        "mode": "Drain" if real else "Simulated",
        "clusters": names,
        "rate": rate,
        "reason": run.reason_or_blank if real else run.reason,
        "criteria": criteria,
    }
    if returns:
        spec["returns"] = True
    if run.chosen_namespace:
        spec["namespaces"] = [run.chosen_namespace]
    if selector:
        spec["selector"] = {"matchLabels": labels_of(selector)}
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Drill", "metadata": {"generateName": "drill-"}}
    collection = paths.failover("drills")
    if real:
        run.require_reason()
    run.api.post(collection, {**head, "spec": spec}, dry_run=True)
    if real:
        preview(run, {"type": "ClustersDrained", "names": names, "rate": rate})
    if real or run.dry_run:
        run.confirm(f"Really drain {', '.join(names)}?", subject=" ".join(names))
    made = run.api.post(collection, {**head, "spec": {**spec, "reason": run.reason}})
    name = made["metadata"]["name"]
    if not wait:
        run.done(f"drill {name} started", made, watch=f"kubectl get drill {name} -w")
        return
    stop = f"""kubectl patch drill {name} --type merge -p '{{"spec": {{"stop": true}}}}'"""
    ended = followed(run, collection, name, _state, timeout=timeout, stop=stop)
    if not run.show(ended):
        _report(run, ended)
    if ended["status"].get("result") != "Passed":
        raise typer.Exit(exit_codes.PROBLEM.code)


def _state(document: Document) -> State:
    status = document.get("status") or {}
    phase = status.get("phase", "")
    text = f"{phase or 'Waiting'}: {status.get('message') or 'waiting for a worker'}"
    return State(status.get("moved", 0), status.get("workloads", 0), text, phase if phase in OVER else "")


def _report(run: Run, document: Document) -> None:
    status = document["status"]
    run.say(f"{document['metadata']['name']}: {status['message']}", style="bold")
    if rows := [
        [one["criterion"], "ok" if one.get("passed") else "failed", one["message"]]
        for one in status.get("verdicts") or ()
    ]:
        run.rows(("Criterion", "Met", "Measured"), rows)
    findings = status.get("findings") or ()
    for one in findings if run.how == output.Output.WIDE else findings[:10]:
        run.say(f"  {one['binding']}: {one['message']}")
    for text in status.get("remarks") or ():
        run.say(text)

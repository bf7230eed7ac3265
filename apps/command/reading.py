"""Commands that answer questions about workloads: explain, record, readiness."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from apps.command import durations, exit_codes, output, paths, reports
from apps.command.errors import CommandError, Document, usage
from apps.command.options import RecordFormat, command
from apps.command.output import RecordOutput
from apps.command.run import Run
from apps.command.workloads import subject

app = typer.Typer()
PANEL: Final = "Answers"

Workload = Annotated[str, typer.Argument(help="TYPE/NAME (deployment/web), or the name of a binding.")]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="In all namespaces.")]


@command(app, panel=PANEL)
def explain(run: Run, workload: Workload) -> None:
    """Say why a workload is where it is, and why not elsewhere: the last decision, cluster by cluster."""
    path = f"{subject(run, workload).path}/explain"
    if not run.is_structured:
        run.say(run.api.text(path).rstrip("\n"))
    else:
        run.show(run.api.get(path))


@command(app, panel=PANEL)
def readiness(run: Run, workload: Annotated[str, typer.Argument(help="TYPE/NAME. Default: the fleet.")] = "") -> None:
    """Say whether a workload, or the fleet, would fail over now, what prevents it, and what to do."""
    if not workload:
        found = run.api.get(paths.failover("fleetreadinesses", "fleet"))
        if not run.show(found):
            _fleet(run, found["status"])
        problem = any(one.get("severity") == "Blocks" for one in found["status"].get("obstacles") or ())
    else:
        found = run.api.get(f"{subject(run, workload).path}/readiness")
        if not run.show(found):
            _binding(run, found)
        problem = not found["ready"]
    if problem:
        raise typer.Exit(exit_codes.PROBLEM.code)


def _fleet(run: Run, status: Document) -> None:
    run.say(f"{status.get('ready', 0)} of {status.get('bindings', 0)} workloads would fail over.")
    if message := status.get("message"):
        run.say(message, style="yellow")
    rows = [
        [one["what"], one["severity"], one["bindings"], one["remedy"], ", ".join(map(_name, one.get("examples") or ()))]
        for one in status.get("obstacles") or ()
    ]
    if rows:
        run.rows(("Obstacle", "Severity", "Workloads", "What to do", "Examples"), rows)


def _name(reference: str) -> str:
    """Return the namespace and name in the reference of a binding, which is a text as in "ResourceBinding:shop/web"."""
    return reference.partition(":")[2] or reference


def _binding(run: Run, found: Document) -> None:
    run.say(f"{_name(found['binding'])}: {'would fail over' if found['ready'] else 'would not fail over'}.")
    for one in found.get("prospects") or ():
        after = one.get("after_seconds", one.get("afterSeconds"))
        when = "" if after is None else f" {durations.brief(after)} after the taint"
        moves = f"moves{when}: {one['refuge']}" if one["moves"] else f"stays: {one.get('refuge') or 'see below'}"
        run.say(f"  if {one['cluster']} fails: {moves}")
        if waits := one.get("waits_for", one.get("waitsFor")):
            run.say(f"    then waits for {waits}")
    for one in found.get("obstacles") or ():
        where = f" on {one['cluster']}" if one.get("cluster") else ""
        run.say(f"  {one['severity']}: {one['what']}{where}: {one['message']}")
        run.say(f"    what to do: {one['remedy']}")


@command(app, panel=PANEL, output=RecordFormat)
def record(
    run: Run,
    workload: Annotated[str, typer.Argument(help="TYPE/NAME, a binding or a record. Default: all.")] = "",
    everywhere: AllNamespaces = False,
    cluster: Annotated[str, typer.Option(help="Only failovers that left this cluster.")] = "",
    since: Annotated[str, typer.Option(help="Only failovers that began within 2h, 1d.")] = "",
) -> None:
    """Show what happened: failovers with their steps, times and reasons. -o markdown writes an incident report."""
    records = _records(run, workload, everywhere=everywhere)
    if cluster:
        records = [one for one in records if cluster in {left["name"] for left in one["status"].get("left") or ()}]
    if since:
        begin = run.now - timedelta(seconds=durations.seconds(since, option="--since"))
        records = [one for one in records if (at := reports.began(one)) is not None and at >= begin]
    if run.how == RecordOutput.MARKDOWN:
        run.out.out(reports.markdown(records, server=run.api.server, now=run.now), highlight=False)
    elif not run.show(records[0] if workload and len(records) == 1 else _list(records)):
        _print(run, records)


def _list(items: list[Document]) -> Document:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _records(run: Run, workload: str, *, everywhere: bool) -> list[Document]:
    if workload and everywhere:
        raise usage("-A lists the records of all namespaces; leave out the workload")
    namespace = "" if everywhere else run.namespace
    if not workload:
        found: list[Document] = run.api.items(paths.failover("failoverrecords", namespace=namespace))["items"]
        return found
    binding, _, version = workload.rpartition(".")
    if binding and version.isdecimal():
        return [run.api.get(paths.failover("failoverrecords", workload, namespace=namespace))]
    about = subject(run, workload)
    listed = run.api.items(paths.failover("failoverrecords", namespace=about.namespace))["items"]
    own = [one for one in listed if one["metadata"]["name"].rpartition(".")[0] == about.name]
    own = [one for one in own if one["metadata"].get("namespace", "") == about.namespace]
    if not own:
        raise CommandError(f"no failover of {about.qualified} is on record", code=exit_codes.NOT_FOUND)
    return own


def _print(run: Run, records: list[Document]) -> None:
    if not records:
        run.remark("none")
    elif len(records) == 1 or run.how == output.Output.WIDE:
        for one in records:
            _steps(run, one)
    else:
        rows: list[list[Any]] = [reports.row(one) for one in records]
        run.rows(reports.COLUMNS, rows)


def _steps(run: Run, record: Document) -> None:
    run.say(reports.sentence(record), style="bold")
    steps = record["status"].get("steps") or ()
    rows = [
        [f"+{one['seconds']:.1f}s", one["what"], one.get("cluster"), one.get("message"), one["at"]] for one in steps
    ]
    run.rows(("After", "Step", "Cluster", "Message", "At"), rows)

"""Commands about the fleet as a whole: clusters, top, doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import typer

from apps.command import durations, exit_codes, output, paths
from apps.command.errors import Document, Refused
from apps.command.options import command
from apps.command.run import Run
from controlplane.apimachinery.quantities import NANO, Quantity, QuantityError

app = typer.Typer()
PANEL: Final = "Fleet"
LATE_SECONDS: Final = 60.0
_RESOURCES: Final = ("cpu", "memory", "pods")


@command(app, panel=PANEL)
def clusters(run: Run) -> None:
    """List the clusters with their state, as `kubectl get clusters`."""
    run.table(paths.CLUSTERS)


@command(app, panel=PANEL)
def top(run: Run) -> None:
    """Show how full the clusters are: the requests of pods as a share of what nodes offer. The fullest first."""
    found = run.api.items(paths.CLUSTERS)
    if run.show(found):
        return
    used = sorted((_usage(one) for one in found["items"]), key=lambda one: -max(one.shares, default=-1.0))
    columns = ("Cluster", "Ready", *(f"{name}{end}" for name in _RESOURCES for end in ("", "%")), "Nodes")
    run.rows(columns, [one.row for one in used])


class Usage(NamedTuple):
    """The cells of a cluster, and its shares in use, for the order."""

    row: list[Any]
    shares: list[float]


def _usage(cluster: Document) -> Usage:
    status = cluster.get("status") or {}
    summary = status.get("resourceSummary") or {}
    cells: list[Any] = [cluster["metadata"]["name"], _ready(cluster)]
    shares = []
    for name in _RESOURCES:
        total, used = _amount(summary, "allocatable", name), _amount(summary, "allocated", name)
        share = None if not total else used / total
        shares += [] if share is None else [share]
        cells += [None if not total else f"{_text(name, used)}/{_text(name, total)}"]
        cells += [None if share is None else f"{share:.0%}"]
    nodes = status.get("nodeSummary") or {}
    return Usage([*cells, f"{nodes.get('readyNum', 0)}/{nodes.get('totalNum', 0)}" if nodes else None], shares)


def _ready(cluster: Document) -> str:
    return next((one["status"] for one in _conditions(cluster) if one["type"] == "Ready"), "Unknown")


def _conditions(cluster: Document) -> list[Document]:
    return (cluster.get("status") or {}).get("conditions") or []


def _amount(summary: Document, part: str, name: str) -> float:
    try:
        return Quantity.of((summary.get(part) or {}).get(name, "0")).nano / NANO
    except QuantityError:
        return 0.0


def _text(name: str, amount: float) -> str:
    return f"{amount / 2**30:.1f}Gi" if name == "memory" else f"{amount:.1f}" if name == "cpu" else f"{amount:.0f}"


class Check(NamedTuple):
    """The result of a check. `remedy`: what to do; it is given only with a problem. `blocks`: it prevents failovers."""

    name: str
    problem: str
    remedy: str = ""
    blocks: bool = True

    @property
    def state(self) -> str:
        return "ok" if not self.problem else "failed" if self.blocks else "Warns"


@command(app, panel=PANEL)
def doctor(run: Run) -> None:
    """Check everything a failover needs, and say what to do: processes, gate, clusters, pauses, queue, readiness."""
    checks = sorted(_checks(run), key=lambda check: check.state == "ok")  # what fails comes first
    found = [one._asdict() for one in checks]
    if not run.show({"checks": found}):
        run.rows(
            ("Check", "State", "Problem", "What to do"),
            [[one.name, one.state, one.problem, one.remedy] for one in checks],
        )
    if any(one.problem and one.blocks for one in checks):
        raise typer.Exit(exit_codes.PROBLEM.code)


def _checks(run: Run) -> Iterator[Check]:
    version = run.api.get("/version")
    yield Check(f"API {run.api.server} {version.get('gitVersion', '')}", "")
    yield from _health(run)
    for name, check in (
        ("controllers", _controllers),
        ("configuration", _configuration),
        ("clusters", _clusters),
        ("pauses", _pauses),
        ("queue", _queue),
        ("readiness", _readiness),
    ):
        try:
            yield from check(run)
        except Refused as error:  # a check that this login may not make does not end the others
            yield Check(name, error.message, "ask for the right to read it", blocks=False)


def _health(run: Run) -> Iterator[Check]:
    """Yield the lines of /readyz?verbose, such as "[-]members never seen, nothing waits: is a process running?"."""
    _, text = run.api.health()
    for line in text.splitlines():
        if line.startswith("[+]"):
            yield Check(line.removeprefix("[+]").partition(" ok")[0], "")
        elif line.startswith("[-]"):
            remedy = "start the process, or see its log; docs/operating.md lists what happens without it"
            yield Check(*_named(line.removeprefix("[-]")), remedy)


def _named(line: str) -> tuple[str, str]:
    """Return name and problem of a failed line. Only names of worker groups have a blank: "workers fleet/0"."""
    words = line.split(" ")
    length = 2 if words[0] == "workers" else 1
    return " ".join(words[:length]), " ".join(words[length:]).removeprefix("failed: ")


def _controllers(run: Run) -> Iterator[Check]:
    late = {
        one["name"]: one["oldestSeconds"]
        for one in run.api.get("/debug/controllers")["controllers"]
        if one.get("oldestSeconds", 0) > LATE_SECONDS
    }
    said = ", ".join(f"{name} {durations.brief(seconds)}" for name, seconds in late.items())
    yield Check("controllers", said and f"due objects wait: {said}", "see the log of the workers" if said else "")


def _configuration(run: Run) -> Iterator[Check]:
    columns, rows = output.rows_of(run.api.table(paths.failover("failoverconfigurations")), wide=True, namespaces=False)
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        off = cells.get("Failover") != "On"
        yield Check(
            "gate Failover",
            "Off: nothing is evicted from failed clusters" if off else "",
            "set spec.featureGates.Failover of FailoverConfiguration/default to true" if off else "",
        )
        yield eviction_rate(str(cells.get("Tier") or ""), str(cells.get("Rate") or 0), str(cells.get("Why") or ""))


def eviction_rate(tier: str, rate: str, why: str) -> Check:
    """Return the check of the rate in force. A lower rate than usual prevents no failover, and a rate of 0 each."""
    name, because = "eviction rate", f": {why}" if why else ""
    if float(rate) > 0:
        slow = tier not in ("Normal", "")
        problem = f"tier {tier}, {rate}/s{because}" if slow else ""
        return Check(name, problem, "repair clusters" if slow else "", blocks=False)
    if tier == "Normal" and not why:
        return Check(name, "nothing is evicted: resourceEvictionRate is 0", "raise it on the page /queue/rates")
    by_rate = tier == "Secondary"  # more clusters than the threshold are faulty in any tier but Normal
    remedy = "raise secondaryResourceEvictionRate on the page /queue/rates" if by_rate else "repair clusters"
    return Check(name, f"nothing is evicted: tier {tier}{because}", f"{remedy}; lifeboat status says more")


def _clusters(run: Run) -> Iterator[Check]:
    found = run.api.items(paths.CLUSTERS)["items"]
    if not found:
        yield Check("clusters", "none has joined", "lifeboat join NAME --cluster-kubeconfig FILE")
    for one in found:
        name = one["metadata"]["name"]
        bad = [each for each in _conditions(one) if _is_bad(each)]
        said = "; ".join(f"{each['type']} {each['status']}: {each.get('message', '')}".rstrip(": ") for each in bad)
        if _ready(one) == "Unknown" and not any(each["type"] == "Ready" for each in bad):
            said = "; ".join(filter(None, ("Ready was never reported", said)))
        yield Check(f"cluster {name}", said, f"kubectl describe cluster {name}" if said else "")


def _is_bad(condition: Document) -> bool:
    if condition["type"] == "Ready":
        return bool(condition["status"] != "True")
    return condition["type"] in ("AccessLost", "Flapping") and condition["status"] == "True"


def _pauses(run: Run) -> Iterator[Check]:
    table = run.api.table(paths.failover("evictionholds"))
    columns, rows = output.rows_of(table, wide=False, namespaces=False)
    for row in rows:
        cells = dict(zip(columns, row, strict=True))
        if cells["State"] == "Open":
            problem = f"{cells['Scope']} is paused by {cells['Who'] or 'a user'}: {cells['Reason']}"
            yield Check(f"pause {cells['Name']}", problem, f"lifeboat resume {cells['Name']}", blocks=False)


def _queue(run: Run) -> Iterator[Check]:
    queue = run.api.get(paths.failover("fleetstatuses", "fleet"))["status"].get("queue") or {}
    held = {one["reason"]: one["evictions"] for one in queue.get("heldBy") or ()}
    said = ", ".join(f"{reason} {count}" for reason, count in sorted(held.items()))
    yield Check("queue", said and f"evictions are held: {said}", "lifeboat queue -o wide" if said else "", blocks=False)


def _readiness(run: Run) -> Iterator[Check]:
    status = run.api.get(paths.failover("fleetreadinesses", "fleet"))["status"]
    bindings, ready = status.get("bindings", 0), status.get("ready", 0)
    lacking = f"{bindings - ready} of {bindings} workloads would not fail over" if ready < bindings else ""
    yield Check("readiness", lacking, "lifeboat readiness" if lacking else "", blocks=False)

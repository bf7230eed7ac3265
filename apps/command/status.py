"""The command `status`: the state of the fleet as one page, the sentence first."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from rich.console import Group
from rich.text import Text

from apps.command import durations, output, paths
from apps.command.errors import Document
from apps.command.fleet import PANEL
from apps.command.follow import follow
from apps.command.options import command
from apps.command.run import Run

app = typer.Typer()
SHOWN: Final = 20  # clusters and things to do that are listed without -o wide
_STYLES: Final = {"Bad": "bold red", "Warn": "bold yellow", "OK": "bold green"}


@command(app, panel=PANEL)
def status(
    run: Run,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print it again until Ctrl-C.")] = False,
    interval: Annotated[str, typer.Option(help="With -w: time between two answers.")] = "2s",
) -> None:
    """Say what fails, what moves, when it is done, and what needs you: the fleet in a sentence and in figures."""

    def answer() -> Any:
        found = run.api.get(paths.failover("fleetstatuses", "fleet"))
        return output.structured(found, run.how) if run.is_structured else _page(run, found["status"])

    follow(run, answer, every=durations.seconds(interval, option="--interval") if watch else 0)


def _page(run: Run, found: Document) -> Group:
    parts: list[Any] = [Text(found.get("sentence", ""), style=_STYLES.get(found.get("severity", ""), ""))]
    if as_of := found.get("asOf"):  # near the top: a terminal cuts off the end of a long answer
        parts.append(Text(f"As of {durations.relative(as_of, now=run.now)}", style="dim"))
    for pause in found.get("pauses") or ():
        until = f" until {durations.relative(pause['until'], now=run.now)}" if pause.get("until") else ""
        said = f"Paused by {pause.get('who') or 'a user'}{until}: {pause.get('reason', '')}"
        parts.append(Text(f"{said} (lifeboat resume {pause['name']})", style="yellow"))
    parts += ["", _queue(run, found.get("queue") or {}, paused=bool(found.get("pauses")))]
    if readiness := found.get("readiness"):
        parts.append(f"Readiness: {readiness['ready']} of {readiness['workloads']} workloads would fail over")
    if drill := found.get("lastDrill"):
        at = f", {durations.relative(drill['at'], now=run.now)}" if drill.get("at") else ""
        parts.append(f"Last drill: {drill['name']}{at}: {drill.get('message') or drill.get('result') or 'waits'}")
    wide = run.how == output.Output.WIDE
    for title, columns, rows in (
        ("Needs you", ("What", "Since", "Problem", "What to do", "Command"), _attention(found)),
        ("Clusters", ("Cluster", "State", "Since", "Workloads", "Queued", "Held", "Moving", "Why"), _members(found)),
    ):
        if rows:
            shown = rows if wide else rows[:SHOWN]
            parts += ["", Text(title, style="bold"), output.table(columns, shown, now=run.now)]
            parts += [f"… and {len(rows) - len(shown)} more (-o wide)"] if len(rows) > len(shown) else []
    return Group(*parts)


def _queue(run: Run, queue: Document, *, paused: bool) -> str:
    counts = [f"{queue.get(name, 0)} {name}" for name in ("queued", "held", "moving", "moved", "stuck", "recovering")]
    ends = f", the last at {durations.relative(queue['endsAt'], now=run.now)}" if queue.get("endsAt") else ""
    pace = f"{'paused; after that ' if paused else ''}{queue.get('rate', 0):g}/s, tier {queue.get('tier') or '-'}"
    return f"Queue: {', '.join(counts)}; {pace}{ends}"


def _attention(found: Document) -> list[list[Any]]:
    return [
        [one["what"], one.get("since"), one.get("message"), one.get("remedy"), one.get("command")]
        for one in found.get("attention") or ()
    ]


def _members(found: Document) -> list[list[Any]]:
    return [
        [
            *(
                one["name"],
                f"{one.get('state')}{', maintenance' if one.get('inMaintenance') else ''}",
                one.get("since"),
            ),
            *(one.get(name, 0) for name in ("workloads", "queued", "held", "moving")),
            one.get("message"),
        ]
        for one in found.get("members") or ()
    ]

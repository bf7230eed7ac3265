"""What an act would do: a WhatIf, which the server answers and which changes nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from apps.command import durations, exit_codes, output, paths
from apps.command.errors import CommandError, Document, Refused
from apps.command.run import Run

POLL_SECONDS: Final = 0.5
LIMIT_SECONDS: Final = 180  # the server gives up earlier
SHOWN: Final = 10  # workloads that are listed for each consequence without -o wide
_LISTED: Final = (  # field of the effects, heading, style
    ("withoutPlace", "Without a place", "red"),
    ("waitsForPerson", "Wait for a person", "yellow"),
    ("held", "Held", "yellow"),
    ("removed", "Copies are removed", "red"),
    ("moves", "Move", ""),
    ("placed", "Placed", ""),
    ("overridden", "Copies change", ""),
    ("stays", "Stay", ""),
)


def ask(run: Run, changes: Sequence[Document]) -> Document:
    """Return the answered WhatIf. Raises CommandError if the server has no answer to it."""
    body = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "WhatIf", "spec": {"changes": list(changes)}}
    found = run.api.post(paths.failover("whatifs"), body)
    name, end, shown = found["metadata"].get("name", ""), time.monotonic() + LIMIT_SECONDS, -1
    while found["status"].get("phase") == "Running":
        if time.monotonic() > end:
            raise CommandError(f"no answer within {LIMIT_SECONDS} s", code=exit_codes.TIMED_OUT)
        share = int(100 * found["status"].get("progress", 0)) // 10 * 10
        if share > shown:
            run.remark(f"computing what would happen: {share} %")
            shown = share
        time.sleep(POLL_SECONDS)
        found = run.api.get(paths.failover("whatifs", name))
    if found["status"].get("phase") == "Failed":
        raise CommandError(f"the server has no answer: {found['status'].get('message')}", code=exit_codes.UNREACHABLE)
    return found


def preview(run: Run, *changes: Document) -> None:
    """Print in a few lines what changes would do. A server that cannot answer now does not prevent the act."""
    try:
        status = ask(run, changes)["status"]
    except Refused as error:
        if error.http not in (403, 404, 429, 503):
            raise
        run.remark(f"what would happen is not known: {error.message}", style="yellow")
        run.effects_known = run.effects_known or not run.has_effects
        return
    run.concerned = concerned(status["effects"])
    if not run.concerned and run.has_effects:
        return  # the API says more about a write that moves nothing: how much stays, or why
    run.effects_known = True
    run.remark(sentence(status), style="bold")
    _list(run, status["effects"], ("withoutPlace", "waitsForPerson", "held", "removed"), run.remark)


def concerned(effects: Document) -> int:
    """Return the number of workloads that move, stop, are held, change or have no place, as the pages count them."""
    fields = ("moves", "withoutPlace", "held", "removed", "overridden")
    shown = {one["binding"] for field in fields for one in effects.get(field) or ()}
    return len(shown) + sum(effects.get("hidden", {}).get(field, 0) for field in fields)


def sentence(status: Document) -> str:
    """Return the effects in a line: "Moves 43, 2 without a place, 5 namespaces. The last one leaves after 86s."."""
    said = str(status.get("sentence", ""))
    eta = status["effects"].get("etaSeconds")
    end = "" if eta is None else f" The last copy leaves after about {durations.brief(eta)}."
    return f"{said[:1].upper()}{said[1:]}.{end}"


def show(run: Run, found: Document) -> None:
    """Print a whole answer."""
    status = found["status"]
    effects = status["effects"]
    run.say(sentence(status), style="bold")
    tier = effects.get("tier")
    if tier and tier != "Normal":
        run.say(f"Eviction tier {tier}: {effects.get('tierBecause', '')}", style="yellow")
    for text in (*effects.get("refused", ()), *effects.get("remarks", ())):
        run.say(text)
    for one in effects.get("overpacked", ()):
        run.say(f"{one['cluster']} has room for {one['room']} {one['resource']}, and would need {one['needed']}")
    _list(run, effects, tuple(field for field, _, _ in _LISTED), run.say)


def _list(run: Run, effects: Document, fields: Sequence[str], say: Any) -> None:
    wide = run.how == output.Output.WIDE
    for field, heading, style in _LISTED:
        found = effects.get(field) or () if field in fields else ()
        hidden = effects.get("hidden", {}).get(field, 0) if field in fields else 0
        if not found and not hidden:
            continue
        say(f"{heading}: {len(found) + hidden}", style=style)
        for one in found if wide else found[:SHOWN]:
            say(f"  {_line(one)}")
        if not wide and len(found) > SHOWN:
            say(f"  … and {len(found) - SHOWN} more (-o wide)")
        if hidden:
            say(f"  {hidden} in namespaces that you may not read")


def _line(one: Document) -> str:
    moves = (
        f"{_clusters(one.get('from'))} → {_clusters(one.get('to'))}" if one.get("to") else _clusters(one.get("from"))
    )
    why = one.get("message") or one.get("reason")
    return f"{one.get('workload') or one['binding']}: {moves}{f': {why}' if why else ''}"


def _clusters(replicas: Any) -> str:
    return ", ".join(f"{name} ({count})" if count else name for name, count in (replicas or {}).items()) or "-"

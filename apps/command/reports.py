"""Failover records for people: a sentence, a row, an incident report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from apps.command import durations
from apps.command.errors import Document

COLUMNS: Final = ("Record", "Namespace", "From", "To", "State", "Reason", "Began", "Took")


def began(record: Document) -> datetime | None:
    """Return the time of the first step. None: the record has no steps."""
    steps = record["status"].get("steps") or ()
    return datetime.fromisoformat(steps[0]["at"]) if steps else None


def _names(record: Document, part: str) -> str:
    return ", ".join(one["name"] for one in record["status"].get(part) or ()) or "-"


def _took(record: Document) -> str:
    total = (record["status"].get("durations") or {}).get("total")
    return "" if total is None else durations.brief(total)


def row(record: Document) -> list[Any]:
    """Return the cells of a record, for COLUMNS."""
    meta, status, first = record["metadata"], record["status"], began(record)
    return [
        *(meta["name"], meta.get("namespace"), _names(record, "left"), _names(record, "after"), status.get("state")),
        *(status.get("reason"), first and first.strftime("%Y-%m-%dT%H:%M:%SZ"), _took(record)),
    ]


def _workload(record: Document) -> str:
    resource = record["status"].get("resource") or {}
    place = "/".join(filter(None, (resource.get("namespace"), resource.get("name"))))
    return f"{resource.get('kind', '')} {place}".strip() or str(record["metadata"]["name"])


def sentence(record: Document) -> str:
    """Return a record in one sentence: "Deployment shop/web left member1 for member2 (TaintUntolerated), in 42s"."""
    status = record["status"]
    took = f"in {_took(record)}" if _took(record) else "not finished"
    return (
        f"{_workload(record)} left {_names(record, 'left')} for {_names(record, 'after')} "
        f"({status.get('reason', '')}), {took}"
    )


def markdown(records: Sequence[Document], *, server: str, now: datetime) -> str:
    """Return an incident report: a summary, a table of all failovers, and the steps of each."""
    moments = [at for at in map(began, records) if at is not None]
    lines = ["# Failover report", ""]
    lines += [f"Written {now:%Y-%m-%d %H:%M:%SZ} from {server}. All times are UTC.", ""]
    if not records:
        return "\n".join([*lines, "No failover is on record for this selection.", ""])
    left = sorted({one["name"] for record in records for one in record["status"].get("left") or ()})
    finished = sum(record["status"].get("state") == "Finished" for record in records)
    lines.append(f"- Failovers: {len(records)}, of which {finished} finished")
    lines.append(f"- Clusters left: {', '.join(left) or '-'}")
    if moments:
        lines.append(f"- First step: {min(moments):%Y-%m-%d %H:%M:%S}; last beginning: {max(moments):%H:%M:%S}")
    lines += [
        "",
        "## Summary",
        "",
        *_table(("Workload", *COLUMNS[2:]), ([_workload(one), *row(one)[2:]] for one in records)),
    ]
    for record in records:
        lines += ["", f"## {_workload(record)}", "", f"{sentence(record)}.", ""]
        steps = record["status"].get("steps") or ()
        cells = (
            [one["at"], f"+{one['seconds']:.1f} s", one["what"], one.get("cluster"), one.get("message"), one.get("by")]
            for one in steps
        )
        lines += _table(("At", "After", "Step", "Cluster", "Message", "By"), cells)
    return "\n".join([*lines, ""])


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return head + [f"| {' | '.join(_escaped(cell) for cell in cells)} |" for cells in rows]


def _escaped(value: Any) -> str:
    return " ".join(str("" if value is None else value).split()).replace("|", "\\|")

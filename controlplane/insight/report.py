"""The report about failovers as Markdown, for the incident report of an outage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.insight.lanes import PHASES, Lane, lanes
from controlplane.kinds import failover_record as kind
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.failover_record import FailoverRecord

COMMAND = "kubectl get failoverrecords.failover.lifeboat.io"


def report(
    records: Sequence[FailoverRecord],
    *,
    title: str,
    turned_at: Mapping[str, Sequence[datetime]] = {},
    omissions: Iterable[str] = (),
    now: datetime,
) -> str:
    """Return the report about failovers. `omissions`: sentences about failovers that `records` lacks.

    With a single record the report has all its steps. `turned_at`: see `lanes.lanes`.
    """
    ordered = sorted(records, key=lambda record: (_begun(record) or now, record.metadata.name))
    lines = [f"# {_text(title)}", "", *_summary(ordered, now=now)]
    lines += (f"- {_text(sentence)}" for sentence in omissions)
    found = lanes(ordered, turned_at=turned_at, now=now)
    if found:
        lines += ["", "## Phases", "", *_phases(found)]
    if len(ordered) == 1:
        lines += ["", "## Steps", "", *_steps(ordered[0])]
    elif ordered:
        lines += ["", "## Failovers", "", *_failovers(ordered)]
    lines += ["", f"Computed from the change log at {stamp(now)}. The same as objects: `{_command(ordered)}`", ""]
    return "\n".join(lines)


def stamp(moment: datetime | None) -> str:
    """Return a time in UTC to the second; None: "-"."""
    return "-" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def clusters_text(targets: Iterable[TargetCluster]) -> str:
    """Return clusters with their replicas, as in "member2:3"; "-": none."""
    return ", ".join(f"{one.name}:{one.replicas}" if one.replicas else one.name for one in targets) or "-"


def seconds_text(seconds: float | None) -> str:
    """Return a duration in seconds, minutes and hours; None: "-". Example: 93.4 → "1m33s"."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    return (f"{hours}h" if hours else "") + f"{minutes}m{whole % 60:02}s"


def _begun(record: FailoverRecord) -> datetime | None:
    return record.status.steps[0].at if record.status.steps else record.metadata.creation_timestamp


def _summary(records: Sequence[FailoverRecord], *, now: datetime) -> Iterator[str]:
    if not records:
        yield "No failover is on record for this choice."
        return
    running = [record for record in records if record.status.state == kind.RUNNING]
    left = sorted({one.name for record in records for one in record.status.left})
    reasons = sorted({record.status.reason for record in records})
    last = max((step.at for record in records for step in record.status.steps), default=None)
    yield f"- Failovers: {len(records)}, of which {len(running)} still run"
    yield f"- Left: {', '.join(left)}"
    yield f"- Reasons: {', '.join(reasons)}"
    yield f"- First step: {stamp(_begun(records[0]))}"
    yield f"- Last step: {stamp(last)}"
    totals = sorted(one for record in records if (one := record.status.durations.total) is not None)
    if totals:
        middle = totals[(len(totals) - 1) // 2]
        yield f"- From the first step to the last cleared task: median {seconds_text(middle)}, longest " + seconds_text(
            totals[-1]
        )


def _phases(found: Sequence[Lane]) -> Iterator[str]:
    yield from _row("Cluster", "Phase", "From", "Until", "Longest", "Failovers")
    yield _rule(6)
    for lane in found:
        until = stamp(lane.end) if lane.end is not None else "runs"
        times = (stamp(lane.start), until, seconds_text(lane.longest_seconds))
        yield from _row(lane.cluster, lane.phase, *times, str(lane.record_count))
    yield ""
    shown = {lane.phase for lane in found}
    yield from (f"- {phase}: {text}" for phase, text in PHASES.items() if phase in shown)


def _failovers(records: Iterable[FailoverRecord]) -> Iterator[str]:
    yield from _row("Workload", "Left", "After", "State", "Reason", "Begun", "Total", "Waited for")
    yield _rule(8)
    for record in records:
        status = record.status
        yield from _row(
            _workload(record),
            clusters_text(status.left),
            clusters_text(status.after),
            status.state,
            status.reason,
            stamp(_begun(record)),
            seconds_text(status.durations.total),
            "; ".join(dict.fromkeys(step.message for step in status.steps if step.what == kind.WAITED_FOR)) or "-",
        )


def _steps(record: FailoverRecord) -> Iterator[str]:
    yield f"{_text(_workload(record))}: from {clusters_text(record.status.before)} to " + (
        f"{clusters_text(record.status.after)}, {record.status.purge_mode or 'Gracefully'}."
    )
    yield ""
    yield from _row("Time", "Seconds", "Step", "Cluster", "What", "By", "Rule", "Version")
    yield _rule(8)
    for step in record.status.steps:
        what = (step.what, step.cluster or "-", step.message or "-")
        yield from _row(stamp(step.at), f"{step.seconds:.1f}", *what, step.by, step.rule or "-", str(step.version))


def _workload(record: FailoverRecord) -> str:
    resource = record.status.resource
    place = f"{resource.namespace}/{resource.name}" if resource.namespace else resource.name
    return f"{resource.kind} {place}" if resource.kind else Ref.parse(record.status.binding).name


def _command(records: Sequence[FailoverRecord]) -> str:
    if len(records) != 1:
        return f"{COMMAND} -A"
    metadata = records[0].metadata
    return f"{COMMAND} -n {metadata.namespace} {metadata.name} -o yaml"


def _row(*cells: str) -> Iterator[str]:
    yield f"| {' | '.join(map(_text, cells))} |"


def _rule(columns: int) -> str:
    return "|" + " --- |" * columns


def _text(text: str) -> str:
    """Return a text on one line with the signs of Markdown escaped, so that it stays in its cell."""
    plain = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\|<>[]`*_" else sign for sign in plain)

"""Lanes: the phases of failovers on a time axis, by the cluster that was left, from the first failed probe to the last
cleared task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.meta import Struct
from controlplane.kinds import failover_record as kind
from controlplane.kinds.failover_record import FailoverRecord, Step

DETECTING, WAITING, SCHEDULING, STARTING, RELEASING = "Detecting", "Waiting", "Scheduling", "Starting", "Releasing"
PHASES = {
    DETECTING: "from the first failed probe, or from Ready=False, to the taint",
    WAITING: "from the taint to the eviction: tolerated, queued or held",
    SCHEDULING: "from the eviction to the new placement",
    STARTING: "from the new placement until all copies are healthy",
    RELEASING: "until the task is cleared and the old copy may be removed",
}
"""The phases in their order, with what each lasts."""


class Span(Struct, frozen=True):
    """The time that one failover spent in one phase. `end` None: the phase has not ended."""

    record: str  # name of the FailoverRecord
    cluster: str
    phase: str
    start: datetime
    end: datetime | None = None


class Lane(Struct, frozen=True):
    """One phase of all failovers that left one cluster. `end` None: a failover is in this phase.

    `record_count`: failovers with this phase. `longest_seconds`: of one failover, up to now if it has not ended.
    """

    cluster: str
    phase: str
    start: datetime
    end: datetime | None
    record_count: int
    longest_seconds: float
    spans: tuple[Span, ...] = ()

    def counts(self) -> tuple[tuple[datetime, int], ...]:
        """Return how many failovers are in this phase, as (time, number from then on)."""
        steps: dict[datetime, int] = {}
        for span in self.spans:
            steps[span.start] = steps.get(span.start, 0) + 1
            if span.end is not None:
                steps[span.end] = steps.get(span.end, 0) - 1
        total, found = 0, []
        for at in sorted(steps):
            total += steps[at]
            found.append((at, total))
        return tuple(found)


def lanes(
    records: Iterable[FailoverRecord], *, turned_at: Mapping[str, Sequence[datetime]] = {}, now: datetime
) -> tuple[Lane, ...]:
    """Return the lanes of failovers: clusters in the order of their first step, phases in their order.

    `turned_at`: by cluster, when its probes began to fail or to succeed, oldest first. A cluster that is missing has no
    such times any more, so its first lane begins when Ready changed.
    """
    by_lane: dict[tuple[str, str], list[Span]] = {}
    for record in records:
        for span in spans(record, turned_at=turned_at):
            by_lane.setdefault((span.cluster, span.phase), []).append(span)
    found = [_lane(cluster, phase, some, now=now) for (cluster, phase), some in by_lane.items()]
    first: dict[str, datetime] = {}
    for lane in found:
        first[lane.cluster] = min(lane.start, first.get(lane.cluster, lane.start))
    order = list(PHASES)
    return tuple(sorted(found, key=lambda lane: (first[lane.cluster], lane.cluster, order.index(lane.phase))))


def _lane(cluster: str, phase: str, spans: Sequence[Span], *, now: datetime) -> Lane:
    ends = [span.end for span in spans if span.end is not None]
    return Lane(
        cluster,
        phase,
        start=min(span.start for span in spans),
        end=max(ends) if len(ends) == len(spans) else None,
        record_count=len({span.record for span in spans}),
        longest_seconds=max(((span.end or now) - span.start).total_seconds() for span in spans),
        spans=tuple(sorted(spans, key=lambda span: (span.start, span.record))),
    )


def spans(record: FailoverRecord, *, turned_at: Mapping[str, Sequence[datetime]] = {}) -> Iterator[Span]:
    """Yield the phases of one failover, for each cluster that it left. `turned_at`: see `lanes`.

    A phase without a step at its end is left out, unless the failover is in it now. Example: a Drain has no phases
    before the eviction.
    """
    running = record.status.state == kind.RUNNING
    for left in record.status.left:
        points = _ends(record.status.steps, left.name, probes=turned_at.get(left.name, ()))
        start = next(iter(points.values()), None)
        for phase in PHASES:
            end = points.get(phase)
            if start is None or start == end:
                continue
            if end is not None:
                yield Span(record.metadata.name, left.name, phase, start, end)
                start = end
        if running and start is not None and RELEASING not in points:
            yield Span(record.metadata.name, left.name, _next(points), start)


_BEGINNING = "Beginning"  # where the first phase starts


def _ends(steps: Sequence[Step], cluster: str, *, probes: Sequence[datetime]) -> dict[str, datetime]:
    """Return when each phase ended, in order; first, under _BEGINNING, when the failover began."""
    own = [step for step in steps if step.cluster == cluster]
    seen = _first(own, kind.SEEN)
    tainted, decided = _first(own, kind.TAINTED), _first(own, kind.DECIDED)
    scheduled = _first(steps, kind.SCHEDULED)
    healthy = max((step.at for step in steps if step.what == kind.HEALTHY), default=None)
    cleared = max((step.at for step in own if step.what == kind.CLEARED), default=None)
    begins = (_first_failed(probes, seen), seen, tainted, decided)
    found = {
        _BEGINNING: next((at for at in begins if at is not None), None),
        DETECTING: tainted,
        WAITING: decided,
        SCHEDULING: scheduled,
        STARTING: healthy if healthy is not None and (cleared is None or healthy <= cleared) else None,
        RELEASING: cleared,
    }
    return _ascending({phase: at for phase, at in found.items() if at is not None})


def _ascending(points: dict[str, datetime]) -> dict[str, datetime]:
    """Return the points without those that are earlier than a point before them."""
    last, kept = None, {}
    for phase, at in points.items():
        if last is None or at >= last:
            last = kept[phase] = at
    return kept


def _first(steps: Iterable[Step], what: str) -> datetime | None:
    return min((step.at for step in steps if step.what == what), default=None)


def _first_failed(probes: Sequence[datetime], seen: datetime | None) -> datetime | None:
    """Return when the probes began to fail that made Ready change at `seen`; None: it is not known any more."""
    if seen is None:
        return None
    return max((at for at in probes if at <= seen), default=None)


def _next(points: Mapping[str, datetime]) -> str:
    """Return the phase that a failover is in: the phase after the last phase that has ended."""
    order = list(PHASES)
    ended = [order.index(phase) for phase in points if phase in PHASES]
    return order[max(ended) + 1] if ended else WAITING

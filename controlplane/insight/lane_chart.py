"""Where lanes are drawn: positions and texts of a chart, for a template that writes them as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from controlplane.insight.lanes import Lane
from controlplane.insight.report import seconds_text, stamp

WIDTH: Final = 960
GUTTER: Final = 130  # left of the time axis, for the names of phases
ROW, BAR, HEAD, FOOT = 22, 14, 26, 26  # heights of a lane, of its bar, of the name of a cluster, of the time axis
LEAST: Final = 3.0  # width of a bar, at least
MOST_TICKS: Final = 7
_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400),
)


class Bar(NamedTuple):
    """One lane. `area`: corners of the polygon that shows how many failovers are in the phase; "": it is one."""

    phase: str
    y: float
    x: float
    width: float
    area: str
    text: str
    is_open: bool

    @property
    def text_y(self) -> float:
        """The base line of the name of the phase, from above."""
        return self.y + BAR - 3


class Heading(NamedTuple):
    """The name of a cluster above its lanes."""

    cluster: str
    y: float


class Tick(NamedTuple):
    """A time on the axis."""

    x: float
    text: str


class Chart(NamedTuple):
    """A drawing of WIDTH times `height`."""

    height: int
    bars: tuple[Bar, ...]
    headings: tuple[Heading, ...]
    ticks: tuple[Tick, ...]
    text: str

    @property
    def axis(self) -> int:
        """The y coordinate of the time axis, counted from the top of the chart."""
        return self.height - FOOT

    @property
    def labels(self) -> int:
        """Where the times are written, from above."""
        return self.height - 8


def chart(lanes: Sequence[Lane], *, now: datetime) -> Chart | None:
    """Return the drawing of lanes; None: there are none. A lane that has not ended is drawn up to `now`."""
    if not lanes:
        return None
    start = min(lane.start for lane in lanes)
    end = max(max(lane.end or now for lane in lanes), start + timedelta(seconds=1))
    bars, headings, y = list[Bar](), list[Heading](), 0.0
    for position, lane in enumerate(lanes):
        if position == 0 or lanes[position - 1].cluster != lane.cluster:
            headings.append(Heading(lane.cluster, y + HEAD - 9))
            y += HEAD
        bars.append(_bar(lane, y, (start, end), now=now))
        y += ROW
    clusters = ", ".join(heading.cluster for heading in headings)
    text = f"Phases of failovers from {clusters}, from {stamp(start)} to {stamp(end)}"
    return Chart(int(y) + FOOT, tuple(bars), tuple(headings), tuple(_ticks(start, end)), text)


def _bar(lane: Lane, y: float, span: tuple[datetime, datetime], *, now: datetime) -> Bar:
    x, right = _x(lane.start, span), _x(lane.end or now, span)
    width = max(LEAST, right - x)
    many = f", {lane.record_count} failovers" if lane.record_count > 1 else ""
    until = "runs" if lane.end is None else f"until {stamp(lane.end)}"
    longest = f", longest {seconds_text(lane.longest_seconds)}" if lane.record_count > 1 else ""
    length = seconds_text(((lane.end or now) - lane.start).total_seconds())
    text = f"{lane.phase} {length}{many}{longest}: from {stamp(lane.start)}, {until}"
    return Bar(lane.phase, y, round(x, 1), round(width, 1), _area(lane, y, span, now=now), text, lane.end is None)


def _area(lane: Lane, y: float, span: tuple[datetime, datetime], *, now: datetime) -> str:
    """Return the corners of the steps of `lane.counts()`, as tall as the bar where most failovers are in the phase.

    "": the lane has fewer than two failovers, or no failover was ever in the phase.
    """
    counts = lane.counts()
    most = max(count for _, count in counts)
    if lane.record_count < 2 or most < 1:
        return ""
    floor, corners, height = y + BAR, [(_x(counts[0][0], span), y + BAR)], 0.0
    for at, count in counts:
        x = _x(at, span)
        corners.append((x, floor - height))
        height = BAR * count / most
        corners.append((x, floor - height))
    last = _x(lane.end or now, span)
    corners += [(last, floor - height), (last, floor)]
    return " ".join(f"{x:.1f},{top:.1f}" for x, top in corners)


def _x(at: datetime, span: tuple[datetime, datetime]) -> float:
    start, end = span
    return GUTTER + (WIDTH - GUTTER - 10) * ((at - start) / (end - start))


def _ticks(start: datetime, end: datetime) -> Iterator[Tick]:
    seconds = (end - start).total_seconds()
    step = next((step for step in _STEPS if seconds / step <= MOST_TICKS), _STEPS[-1])
    first = datetime.fromtimestamp(-(-start.timestamp() // step) * step, tz=UTC)
    pattern = "%m-%d %H:%M" if step >= 6 * 3600 else "%H:%M" if step >= 60 else "%H:%M:%S"
    at = first
    while at <= end:
        yield Tick(round(_x(at, (start, end)), 1), f"{at:{pattern}}")
        at += timedelta(seconds=step * max(1, int(seconds / step / MOST_TICKS)))

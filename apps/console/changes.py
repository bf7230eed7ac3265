"""Latest changes: the newest Events, with repetitions of the same kind in one line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from apps.objects.models import Event as EventRow
from controlplane.kind import KINDS, decode
from controlplane.kinds import EVENT
from controlplane.kinds.event import Event

READ: Final = 60  # Events that are read
SHOWN: Final = 10  # lines


class Line(NamedTuple):
    """Events of one reason that followed each other: the newest with its message, and how many more there are."""

    at: datetime | None
    warning: bool
    reason: str
    about: str
    message: str
    more: int


def latest_changes() -> tuple[Line, ...]:
    """Return the newest lines. One query, answered from the index of the newest Events."""
    rows = EventRow.objects.exclude(last_at=None).order_by("-last_at").values_list("doc", flat=True)[:READ]
    return tuple(lines_of(decode(KINDS[EVENT], doc) for doc in rows))[:SHOWN]


def lines_of(events: Iterable[Event]) -> Iterable[Line]:
    """Yield a line for each run of Events with the same reason, the newest first."""
    for reason, run in groupby(events, key=lambda event: (event.reason, event.involved_object.kind)):
        found = list(run)
        newest, about = found[0], found[0].involved_object
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        yield Line(
            newest.last_timestamp,
            newest.type == "Warning",
            reason[0],
            f"{about.kind} {name}",
            newest.message,
            len(found) - 1,
        )

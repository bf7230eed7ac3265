"""Latest changes: the newest Events without ordinary steps, with repetitions of the same kind in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from apps.objects.models import Event as EventRow
from controlplane.kind import KINDS, decode
from controlplane.kinds import EVENT
from controlplane.kinds.event import Event

LOOKED_AT: Final = 2000  # newest Events among which others than steps are looked for
READ: Final = 60  # Events that are read
SHOWN: Final = 10  # lines
# Reasons of Events that report each step of an ordinary placement. An operator looks for what was not ordinary.
STEPS: Final = frozenset(
    (
        *("AggregateStatusSucceed", "ApplyPolicySucceed", "GetDependenciesSucceed", "GetReplicasSucceed"),
        *("InterpretHealthSucceed", "ReflectStatusSucceed", "ScheduleBindingSucceed", "SyncSucceed", "SyncWorkSucceed"),
        *("SyncScheduleResultToDependenciesSucceed", "WorkDispatching"),
    )
)


_BINDINGS: Final = ("ResourceBinding", "ClusterResourceBinding")


class Line(NamedTuple):
    """Events of one reason that followed each other: the newest with its message, and how many more there are."""

    at: datetime | None
    warning: bool
    reason: str
    about: str
    message: str
    more: int


def latest_changes() -> tuple[Line, ...]:
    """Return the newest lines. One query, which reads at most LOOKED_AT rows from the index of the newest Events."""
    newest = EventRow.objects.exclude(last_at=None).order_by("-last_at").values("pk")[:LOOKED_AT]
    rows = EventRow.objects.filter(pk__in=newest).exclude(reason__in=STEPS).order_by("-last_at")
    events = [decode(KINDS[EVENT], doc) for doc in rows.values_list("doc", flat=True)[:READ]]
    return tuple(lines_of(_once(events)))[:SHOWN]


def _once(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the Events, without those of a binding that its workload has as well, with the same reason and message."""
    of_workloads = {(event.reason, event.message) for event in events if event.involved_object.kind not in _BINDINGS}
    for event in events:
        if event.involved_object.kind not in _BINDINGS or (event.reason, event.message) not in of_workloads:
            yield event


def lines_of(events: Iterable[Event]) -> Iterable[Line]:
    """Yield a line for each run of Events with the same reason and kind of object. The newest Event must come first."""
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

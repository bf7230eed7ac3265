"""Latest changes: the newest Events without ordinary steps, with repetitions of the same kind in one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, NamedTuple

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from apps.objects.models import Event as EventRow
from controlplane.kind import KINDS, decode
from controlplane.kinds import EVENT
from controlplane.kinds.event import Event

LOOKED_AT: Final = 2000  # newest Events among which others than steps are looked for
READ: Final = 12  # Events of each reason that are read
SHOWN: Final = 10  # lines
# Reasons of Events that report each step of an ordinary placement. An operator looks for what was not ordinary.
STEPS: Final = frozenset(
    (
        *("AggregateStatusSucceed", "ApplyPolicySucceed", "GetDependenciesSucceed", "GetReplicasSucceed"),
        *("InterpretHealthSucceed", "ReflectStatusSucceed", "ScheduleBindingSucceed", "SyncSucceed", "SyncWorkSucceed"),
        *("SyncImpersonationConfigSucceed", "SyncScheduleResultToDependenciesSucceed", "WorkDispatching"),
    )
)


_OF_THE_FLEET: Final = ("cluster.karmada.io", "failover.lifeboat.io")  # API groups of clusters, and of orders
_BINDINGS: Final = ("ResourceBinding", "ClusterResourceBinding")


class ChangeLine(NamedTuple):
    """The newest of the Events that share a line. `more`: which others share it, in words; "": none."""

    at: datetime | None
    warning: bool
    reason: str
    about: str
    message: str
    more: str


def latest_changes() -> tuple[ChangeLine, ...]:
    """Return the newest lines. One query, which reads at most LOOKED_AT rows from the index of the newest Events.

    Events about workloads have a line for each reason. In a failover they are many and alternate: the eviction of one,
    the healthy copy of another. So what happened to clusters, the cause of it all, stays in the list.
    """
    newest = EventRow.objects.exclude(last_at=None).order_by("-last_at", "-resource_version").values("pk")[:LOOKED_AT]
    rows = EventRow.objects.filter(pk__in=newest).exclude(reason__in=STEPS)
    order = F("last_at").desc(), F("resource_version").desc()  # in a failover, many Events have the same time
    place = Window(RowNumber(), partition_by="reason", order_by=order)
    docs = rows.annotate(place=place).filter(place__lte=READ).order_by(*order).values_list("doc", flat=True)
    return tuple(_lines_of_fleet(_once([decode(KINDS[EVENT], doc) for doc in docs])))[:SHOWN]


def _lines_of_fleet(events: Iterable[Event]) -> Iterator[ChangeLine]:
    """Yield the lines of Situation. The newest Event must come first."""
    first, others = dict[str, Event](), set[str]()
    kept = list[Event]()
    for event in events:
        if _is_about_the_fleet(event):
            kept.append(event)
        elif event.reason in first:
            others.add(event.reason)
        else:
            first[event.reason] = event
            kept.append(event)
    for run in _runs(kept):
        is_shared = len(run) > 1 or (run[0].reason in others and run[0] is first[run[0].reason])
        yield _line(run[0], "and others" if is_shared else "")


def _is_about_the_fleet(event: Event) -> bool:
    return event.involved_object.api_version.partition("/")[0] in _OF_THE_FLEET


def _once(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the Events, without those of a binding that its workload has as well, with the same reason and message."""
    of_workloads = {(event.reason, event.message) for event in events if event.involved_object.kind not in _BINDINGS}
    for event in events:
        if event.involved_object.kind not in _BINDINGS or (event.reason, event.message) not in of_workloads:
            yield event


def lines_of(events: Iterable[Event]) -> Iterator[ChangeLine]:
    """Yield a line for each run of Events with the same reason and kind of object. The newest Event must come first."""
    for run in _runs(events):
        yield _line(run[0], f"and {len(run) - 1} more" if len(run) > 1 else "")


def _runs(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the Events that follow each other with the same reason and kind of object."""
    for _, run in groupby(events, key=lambda event: (event.reason, event.involved_object.kind)):
        yield list(run)


def _line(event: Event, more: str) -> ChangeLine:
    about = event.involved_object
    name = f"{about.namespace}/{about.name}" if about.namespace else about.name
    warning = event.type == "Warning"
    return ChangeLine(event.last_timestamp, warning, event.reason, f"{about.kind} {name}", event.message, more)

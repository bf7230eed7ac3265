"""Notices: which decisions are worth a message to a person who watches no screen.

Few things are: a cluster is lost or back, workloads find no place, nothing can be evicted, the database was restored.
Everything else is in metrics, Events and pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from controlplane.clusters.health import TRUE, established
from controlplane.engine.decision import Decision, Event, Put, Save
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import CERTIFICATE_EXPIRED, Cluster
from controlplane.kinds.rows import HELD, NO_REFUGE, Eviction

INFO, WARNING, CRITICAL = "info", "warning", "critical"
FLEET: Final = "fleet"  # the subject of notices that are about no single cluster
CLUSTER_DOWN, OUTAGE_OVER, NOWHERE_TO_GO = "ClusterDown", "OutageOver", "NowhereToGo"
READY_CHANGED, EVICTION_HELD = "ClusterReadyChanged", "EvictionHeld"
# Events that are passed on as they are, with the severity of the notice.
PASSED_ON: Final[Mapping[str, str]] = {
    "FleetBlind": CRITICAL,
    "FleetSighted": INFO,
    "EvictionTierChanged": WARNING,
    "EvictionTokensUnavailable": CRITICAL,
    "DatabaseRestored": CRITICAL,
    CERTIFICATE_EXPIRED: WARNING,
}


class Notice(msgspec.Struct, frozen=True):
    """A message to people. `topic` and `subject` (a cluster, or FLEET) say what it is about, `count` how often."""

    topic: str
    subject: str
    severity: str
    text: str
    count: int = 1


def notices(decisions: Iterable[Decision]) -> tuple[Notice, ...]:
    """Return the notices about decisions that are stored, one for each topic and subject, with their number.

    The text is that of the first one.
    """
    found: dict[tuple[str, str], Notice] = {}
    for decision in decisions:
        if not decision.events:
            continue  # everything that is worth a notice is also worth an Event
        for notice in (*_of_clusters(decision), *_of_held(decision), *_passed_on(decision)):
            key = (notice.topic, notice.subject)
            earlier = found.get(key)
            found[key] = notice if earlier is None else msgspec.structs.replace(earlier, count=earlier.count + 1)
    return tuple(found.values())


def _of_clusters(decision: Decision) -> Iterator[Notice]:
    """Yield a notice for each cluster that was Ready and is not, or was lost and is Ready again."""
    for change in decision.changes:
        if not isinstance(change, Put) or change.new.ref.kind != CLUSTER or change.old is None:
            continue
        old, new = change.old, change.new
        assert isinstance(old, Cluster)
        assert isinstance(new, Cluster)
        if old.ready == new.ready or TRUE not in (old.ready, new.ready) or not established(old):
            continue
        topic, severity = (OUTAGE_OVER, INFO) if new.ready == TRUE else (CLUSTER_DOWN, WARNING)
        text = next((event.message for event in decision.events if event.reason == READY_CHANGED), "")
        yield Notice(topic, new.metadata.name, severity, text or f"cluster {new.metadata.name} is Ready={new.ready}")


def _of_held(decision: Decision) -> Iterator[Notice]:
    """Yield a notice for each eviction that is held from now on because no other cluster fits."""
    reported = {str(event.about.ref): event for event in decision.events if event.reason == EVICTION_HELD}
    for change in decision.changes:
        row = change.row if isinstance(change, Save) else None
        if isinstance(row, Eviction) and (row.state, row.reason) == (HELD, NO_REFUGE) and row.binding in reported:
            yield Notice(NOWHERE_TO_GO, row.cluster, WARNING, f"{row.binding} {reported[row.binding].message}")


def _passed_on(decision: Decision) -> Iterator[Notice]:
    for event in decision.events:
        if event.reason in PASSED_ON:
            yield Notice(event.reason, _subject(event), PASSED_ON[event.reason], event.message)


def _subject(event: Event) -> str:
    return event.about.metadata.name if event.about.ref.kind == CLUSTER else FLEET

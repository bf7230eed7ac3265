"""Heartbeats of Pull members: when the agent last reported, and what it reported [heartbeat-leases].

The agent renews the Lease `karmada-cluster/<cluster>` and writes Ready into the status of its Cluster. Both count as
heartbeats. The database says when a heartbeat arrived, never the clock of the agent [skewed-clocks]. A Lease carries
that moment as an annotation, a condition as its transition time. Silence counts only while an API process ran: members
are not blamed for an outage of the control plane.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, RECEIVED_ANNOTATION
from controlplane.clusters import health
from controlplane.clusters.health import HEARTBEAT, RENEWED, TRUE, Seen, reported_ready
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.settings import Settings

LISTENING: Final = "api"
"""Name of the leases that API processes hold while agents can report to them."""


def stamped(lease: Template, old: Template | None, *, now: datetime) -> Template:
    """Return a heartbeat Lease with the annotation of when its renewal was received. Other Leases are not changed.

    A write that does not renew the Lease keeps the stored annotation, whatever the write contains. `now`: the store's
    clock.
    """
    if lease.metadata.namespace != CLUSTER_NAMESPACE:
        return lease
    annotations = {key: text for key, text in lease.metadata.annotations.items() if key != RECEIVED_ANNOTATION}
    renewal, before = lease.spec.get("renewTime"), None if old is None else old.spec.get("renewTime")
    if renewal is not None and renewal != before:
        annotations[RECEIVED_ANNOTATION] = now.astimezone(UTC).isoformat(timespec="microseconds")
    elif old is not None and RECEIVED_ANNOTATION in old.metadata.annotations:
        annotations[RECEIVED_ANNOTATION] = old.metadata.annotations[RECEIVED_ANNOTATION]
    return lease.with_meta(annotations=annotations)


def received(lease: Template | None) -> datetime | None:
    """Return when the latest renewal of a Lease was received. None: there was none, or the annotation is unreadable."""
    text = None if lease is None else lease.metadata.annotations.get(RECEIVED_ANNOTATION)
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None  # for example after a restore; the next renewal writes it again


def heard(
    cluster: Cluster,
    lease: Template | None,
    row: Observation | None,
    settings: Settings,
    *,
    now: datetime,
    heard_until: datetime | None = None,
) -> Observation:
    """Return the observation of a Pull member, with the heartbeats that have arrived from its agent.

    `heard_until`: until when an API process ran that the agent could report to. None: unknown.
    """
    known = _in_the_past(row or Observation(key=cluster.metadata.name), now=now)
    reported = reported_ready(cluster)
    signs = (known.renewed_at, received(lease), None if reported is None else reported.last_transition_time)
    # A time in the future is from before the clock was put back. It must not hide that no later heartbeat arrives.
    latest = max((moment for moment in signs if moment is not None and moment <= now), default=None)
    changed = reported is not None and reported.status != known.status
    if latest is not None and (latest != known.renewed_at or changed):
        known = health.heartbeat(known, _meaning(reported, known), settings, now=latest)
    return _listened(known, settings, now=now, heard_until=heard_until)


def _in_the_past(row: Observation, *, now: datetime) -> Observation:
    """Return an observation whose last heartbeat is not later than now: if the clock was put back, it was now."""
    return replace(row, renewed_at=now) if row.renewed_at is not None and row.renewed_at > now else row


def _meaning(reported: Condition | None, row: Observation) -> Seen:
    """Return what a heartbeat means for Ready: the status that the agent reports, else its last status.

    Without either the member counts as Ready, because an agent renews no Lease before that.
    """
    if reported is not None:
        return Seen(reported.status, reported.reason, reported.message)
    return Seen(row.status, row.reason, row.message) if row.status else Seen(TRUE, HEARTBEAT, RENEWED)


def _listened(row: Observation, settings: Settings, *, now: datetime, heard_until: datetime | None) -> Observation:
    known = health.without_gap(row, settings, now=now, heard_until=heard_until)
    deaf = timedelta(seconds=known.unobserved_seconds - row.unobserved_seconds)
    renewed = None if row.renewed_at is None else row.renewed_at + deaf
    return replace(known, observed_at=now, renewed_at=renewed, access_lost="", access_reason="")

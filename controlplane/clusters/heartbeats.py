"""Heartbeats: what a Pull member's agent says from inside, and how long its silence has lasted (semantics 2.2).

The agent renews the Lease `karmada-cluster/<cluster>` and writes Ready into its Cluster's status; either is a sign of
life. When it arrived is said by the database as the write is admitted, never by the agent's clock (fault 48): the
Lease carries that moment as an annotation, a condition as its transition time. Silence counts only while somebody here
listened: a control plane that was away, or whose API was, blames no member for it (D22: our own fault).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import CLUSTER_NAMESPACE, RECEIVED_ANNOTATION
from controlplane.clusters import health
from controlplane.clusters.health import HEARTBEAT, RENEWED, TRUE, Seen, said
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import Observation
from controlplane.kinds.template import Template
from controlplane.settings import Settings

LISTENING: Final = "api"
"""Name of the leases by which API processes show that agents can report to them."""


def stamped(lease: Template, old: Template | None, *, now: datetime) -> Template:
    """Return a heartbeat Lease with the moment its renewal was received; other Leases as they are.

    A write that renews nothing keeps the moment there was, whatever it says itself. `now`: the store's clock.
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
    """Return when the latest renewal of a Lease was received; None where none was."""
    text = None if lease is None else lease.metadata.annotations.get(RECEIVED_ANNOTATION)
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None  # restored from elsewhere: the next renewal says it anew


def heard(
    cluster: Cluster,
    lease: Template | None,
    row: Observation | None,
    settings: Settings,
    *,
    now: datetime,
    heard_until: datetime | None = None,
) -> Observation:
    """Return the observation of a Pull member after a look at what has arrived from its agent. `heard_until`: up to
    when there was an API to report to; None: nobody says."""
    known = row or Observation(key=cluster.metadata.name)
    word = said(cluster)
    signs = (known.renewed_at, received(lease), None if word is None else word.last_transition_time)
    latest = max((moment for moment in signs if moment is not None), default=None)
    new_word = word is not None and word.status != known.status
    if latest is not None and (latest != known.renewed_at or new_word):
        known = health.heartbeat(known, _meaning(word, known), settings, now=latest)
    return _listened(known, settings, now=now, heard_until=heard_until)


def _meaning(word: Condition | None, row: Observation) -> Seen:
    """Return what a sign of life says of Ready: the agent's word, else its last; it renews no Lease before Ready."""
    if word is not None:
        return Seen(word.status, word.reason, word.message)
    return Seen(row.status, row.reason, row.message) if row.status else Seen(TRUE, HEARTBEAT, RENEWED)


def _listened(row: Observation, settings: Settings, *, now: datetime, heard_until: datetime | None) -> Observation:
    known = health.without_gap(row, settings, now=now, heard_until=heard_until)
    deaf = timedelta(seconds=known.unobserved_seconds - row.unobserved_seconds)
    renewed = None if row.renewed_at is None else row.renewed_at + deaf
    return replace(known, observed_at=now, renewed_at=renewed, access_lost="", access_reason="")

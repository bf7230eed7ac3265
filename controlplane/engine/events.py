"""Events as stored objects: one per (about, reason, reporter, message), counted instead of repeated."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref, to_seconds
from controlplane.apimachinery.uids import child_uid
from controlplane.engine.decision import Event as Told
from controlplane.kinds.event import Event, EventSource, InvolvedObject

MAX_MESSAGE = 1024


def event_ref(told: Told, *, by: str) -> Ref:
    """Return where the Event of this message is kept: named after its object and a digest of what it says."""
    about = told.about.metadata
    digest = hashlib.sha256(f"{about.uid}\0{told.reason}\0{by}\0{told.message}".encode()).hexdigest()[:16]
    return Ref("Event", about.namespace or "default", f"{about.name}.{digest}")


def counted(told: Told, *, ref: Ref, by: str, now: datetime, old: Any) -> Event:
    """Return the Event object to store under its reference: new, or the one there is (`old`) with its count raised."""
    moment = to_seconds(now)
    known: Event | None = old
    if known is not None:
        return replace(known, count=known.count + 1, last_timestamp=moment)
    about = told.about
    return Event(
        api_version="v1",
        kind="Event",
        metadata=ObjectMeta(
            name=ref.name,
            namespace=ref.namespace,
            uid=child_uid(about.metadata.uid, "event", ref.name),
            creation_timestamp=moment,
        ),
        involved_object=InvolvedObject(
            api_version=about.api_version,
            kind=about.kind,
            namespace=about.metadata.namespace,
            name=about.metadata.name,
            uid=about.metadata.uid,
            resource_version=about.metadata.resource_version,
        ),
        reason=told.reason,
        message=told.message[:MAX_MESSAGE],
        type="Warning" if told.warning else "Normal",
        source=EventSource(component=by),
        first_timestamp=moment,
        last_timestamp=moment,
        count=1,
        reporting_component=by,
    )

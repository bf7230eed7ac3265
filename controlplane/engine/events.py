"""The Event objects that are stored for the Events of decisions. A repeated Event raises a count."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref, to_seconds
from controlplane.apimachinery.uids import child_uid
from controlplane.engine.decision import Event as DecidedEvent
from controlplane.kinds.event import Event, EventSource, InvolvedObject

MAX_MESSAGE = 1024


def event_ref(event: DecidedEvent, *, by: str) -> Ref:
    """Return the reference under which an Event of the reporter `by` is stored.

    Events with the same object, reason, reporter and message share a reference, and thereby one stored object. Its
    name is the name of the object and a digest of these four.
    """
    about = event.about.metadata
    digest = hashlib.sha256(f"{about.uid}\0{event.reason}\0{by}\0{event.message}".encode()).hexdigest()[:16]
    return Ref("Event", about.namespace or "default", f"{about.name}.{digest}")


def counted(event: DecidedEvent, *, ref: Ref, by: str, now: datetime, old: Any) -> Event:
    """Return the Event object to store under `ref`: `old` with its count raised by 1, or a new object if `old` is None.

    Messages are cut after 1024 characters.
    """
    timestamp = to_seconds(now)
    stored: Event | None = old
    if stored is not None:
        return replace(stored, count=stored.count + 1, last_timestamp=timestamp)
    about = event.about
    return Event(
        api_version="v1",
        kind="Event",
        metadata=ObjectMeta(
            name=ref.name,
            namespace=ref.namespace,
            uid=child_uid(about.metadata.uid, "event", ref.name),
            creation_timestamp=timestamp,
        ),
        involved_object=InvolvedObject(
            api_version=about.api_version,
            kind=about.kind,
            namespace=about.metadata.namespace,
            name=about.metadata.name,
            uid=about.metadata.uid,
            resource_version=about.metadata.resource_version,
        ),
        reason=event.reason,
        message=event.message[:MAX_MESSAGE],
        type="Warning" if event.warning else "Normal",
        source=EventSource(component=by),
        first_timestamp=timestamp,
        last_timestamp=timestamp,
        count=1,
        reporting_component=by,
    )

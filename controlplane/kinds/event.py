"""Event (v1): something that happened to an object. Repeated Events are one object with a count."""

from __future__ import annotations

from datetime import datetime

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Index, Kind
from controlplane.wire import builtin

EVENT = "Event"


class InvolvedObject(Struct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    involved_object: InvolvedObject = InvolvedObject()
    reason: str = ""
    message: str = ""
    type: str = ""  # Normal, Warning
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    count: int = 0
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""


def _about(event: Event) -> list[str]:
    return [event.involved_object.uid] if event.involved_object.uid else []


DECLARED = tuple(
    Kind(
        resource=resource,
        type=Event,
        table="objects.Event",
        schema=lambda: builtin.schema("", "v1", "Event"),
        indexes=(Index("about", _about, "kubectl describe: events of an object"),),
        has_generation=False,
        has_status=False,
        audited=False,
    )
    for resource in builtin.RESOURCES
    if resource.key == EVENT
)

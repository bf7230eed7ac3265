"""Event (v1): something that happened to an object. Repeated Events are one object with a count.

Events are served as events.k8s.io/v1 too [built-in-versions].
"""

from __future__ import annotations

from datetime import datetime

from controlplane.apimachinery.meta import Object, Struct
from controlplane.kind import Index, Kind
from controlplane.kinds.other_version import also_served
from controlplane.kube import event_versions
from controlplane.wire import builtin
from controlplane.wire.resource import Resource

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


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: datetime | None = None


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
    related: InvolvedObject | None = None
    series: EventSeries | None = None


def _about(event: Event) -> list[str]:
    return [event.involved_object.uid] if event.involved_object.uid else []


def _declared(core: Resource, newer: Resource) -> Kind:
    stored = Kind(
        resource=core,
        type=Event,
        table="objects.Event",
        schema=lambda: builtin.schema("", "v1", "Event"),
        indexes=(Index("about", _about, "kubectl describe: events of an object"),),
        has_generation=False,
        has_status=False,
        audited=False,
    )
    return also_served(stored, newer, event_versions.converted, event_versions.faults)


DECLARED = (_declared(*(resource for resource in builtin.RESOURCES if resource.kind == "Event")),)

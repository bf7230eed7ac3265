"""The history of an object for pages: its changes, and the Events about it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import orjson
from django.db.models import Q

from apps.objects.encryption import legible
from apps.objects.models import ChangeLog, Event
from apps.objects.yaml_text import changed_fields
from controlplane.apimachinery.meta import Ref


class Entry(NamedTuple):
    """One change of an object. `fields`: the paths of the changed fields, at most two levels deep."""

    version: int
    at: datetime
    type: str
    ref: Ref
    actor: str
    reason: str
    cause: int  # version of the change that the actor reacted to; 0: unknown
    fields: list[str]

    @property
    def sentence(self) -> str:
        """What happened: who created, changed or removed which object, and which fields."""
        verb = {"ADDED": "created", "DELETED": "removed"}.get(self.type, "changed")
        kind, place = self.ref.kind.rpartition("/")[2], self.ref.namespace
        name = f"{kind} {place}/{self.ref.name}" if place else f"{kind} {self.ref.name}"
        what = f" {', '.join(self.fields)} of" if self.fields else ""
        return f"{self.actor} {verb}{what} {name}"


class EventEntry(NamedTuple):
    """An Event about an object. `times`: how often it happened."""

    last_at: datetime | None
    times: int
    type: str
    reason: str
    message: str
    source: str


def timeline(refs: Collection[Ref], *, limit: int) -> list[Entry]:
    """Return the newest changes of objects, newest first. One query."""
    if not refs:
        return []
    any_of = reduce(or_, (Q(kind=ref.kind, namespace=ref.namespace, name=ref.name) for ref in refs))
    return [_entry(row) for row in ChangeLog.objects.filter(any_of).order_by("-version")[:limit]]


def written_at(versions: Collection[int]) -> dict[int, datetime]:
    """Return when versions were written, as far as the change log still has them. One query."""
    rows = ChangeLog.objects.filter(version__in=versions).values_list("version", "at") if versions else ()
    return dict(rows)


def events_about(uid: str, *, limit: int) -> list[EventEntry]:
    """Return the newest Events about the object with that uid, newest first. One query."""
    rows = Event.objects.filter(keys__contains=[f"about={uid}"]).order_by("-last_at")[:limit]
    return [_event_entry(row) for row in rows]


def _entry(row: ChangeLog) -> Entry:
    before = None if row.old_doc is None else orjson.loads(legible(row.kind, row.old_doc))
    fields = [] if row.type != "MODIFIED" else changed_fields(before, orjson.loads(legible(row.kind, row.doc)))
    ref = Ref(row.kind, row.namespace, row.name)
    return Entry(row.version, row.at, row.type, ref, row.actor, row.reason, row.cause, fields)


def _event_entry(row: Event) -> EventEntry:
    document: dict[str, Any] = orjson.loads(row.doc)
    source = document.get("reportingComponent") or document.get("source", {}).get("component", "")
    return EventEntry(
        row.last_at,
        document.get("count", 1),
        document.get("type", ""),
        row.reason,
        document.get("message", ""),
        source,
    )

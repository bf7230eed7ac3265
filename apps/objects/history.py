"""What happened to an object: its changes, and the Events about it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import orjson
from django.db.models import Q

from apps.objects.encryption import opened
from apps.objects.models import ChangeLog, Event
from apps.objects.yaml_text import changed_fields
from controlplane.apimachinery.meta import Ref


class Entry(NamedTuple):
    """One change: when, by whom, under which rule, because of which change, and what it touched."""

    version: int
    at: datetime
    type: str
    ref: Ref
    actor: str
    reason: str
    cause: int  # version of the change acted upon, 0 unknown
    fields: list[str]


class Told(NamedTuple):
    """An Event about an object. `times`: how often it was seen."""

    last_at: datetime | None
    times: int
    type: str
    reason: str
    message: str
    source: str


def timeline(refs: Collection[Ref], *, limit: int) -> list[Entry]:
    """Return the newest changes of some objects, newest first. One query."""
    if not refs:
        return []
    any_of = reduce(or_, (Q(kind=ref.kind, namespace=ref.namespace, name=ref.name) for ref in refs))
    return [_entry(row) for row in ChangeLog.objects.filter(any_of).order_by("-version")[:limit]]


def events_about(uid: str, *, limit: int) -> list[Told]:
    """Return the newest Events about the object of that uid, newest first. One query."""
    found = Event.objects.filter(keys__contains=[f"about={uid}"]).order_by("-last_at")[:limit]
    return [_told(row) for row in found]


def _entry(row: ChangeLog) -> Entry:
    before = None if row.old_doc is None else orjson.loads(opened(row.kind, row.old_doc))
    fields = [] if row.type != "MODIFIED" else changed_fields(before, orjson.loads(opened(row.kind, row.doc)))
    ref = Ref(row.kind, row.namespace, row.name)
    return Entry(row.version, row.at, row.type, ref, row.actor, row.reason, row.cause, fields)


def _told(row: Event) -> Told:
    document: dict[str, Any] = orjson.loads(row.doc)
    source = document.get("reportingComponent") or document.get("source", {}).get("component", "")
    return Told(
        row.last_at,
        document.get("count", 1),
        document.get("type", ""),
        row.reason,
        document.get("message", ""),
        source,
    )

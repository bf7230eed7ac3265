"""Objects for pages to show, stored through the product's own writer; and how to look a page up."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.test import Client
from django.urls import reverse
from msgspec.structs import replace

from apps.objects.store import store
from apps.objects.tables import object_table
from controlplane.apimachinery.meta import Condition, Object, Ref
from controlplane.engine.decision import Decision, Event, Put, Save
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds.rows import (
    CapacityReservation,
    Collected,
    FleetState,
    Judgement,
    MatchWindow,
    Observation,
)
from controlplane.kinds.template import Template
from tests.builders.bare import START, binding, cluster, meta
from tests.builders.objects import eviction, work
from tests.stores.grounds import create

WEB = {"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {}, "spec": {}}}}


def stored(*objects: Object) -> list[Any]:
    """Store objects as jane and return them as stored."""
    return create(store(), *objects)


def secret(name: str, **values: str) -> Template:
    return Template("v1", "Secret", meta(name), content={"type": "Opaque", "data": values})


def of_kind(key: str, name: str) -> Object:
    """Return the smallest object of a kind that a store takes."""
    kind = KINDS[key]
    place = "shop" if kind.resource.namespaced else ""
    typed: dict[str, Any] = {"binding": binding, "work": work}
    if kind.table == "resources.Binding":
        made = typed["binding"](name, "member1")
        return type(made)(kind.resource.api_version, kind.resource.kind, meta(name, place), made.spec)
    if kind.table == "resources.Work":
        return work(name, "member1")
    return kind.type(kind.resource.api_version, kind.resource.kind, meta(name, place))


def in_queue(*names: str, state: str = "Queued") -> dict[str, str]:
    """Queue each binding's copy on member1; return the keys of the items by name."""
    stored(*(binding(name, "member1") for name in names))
    judged = Judgement("gone", "NoExecute", START, START)
    rows = [replace(eviction(name, "member1"), judged=(judged,), state=state) for name in names]
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))
    return {name: row.key for name, row in zip(names, rows, strict=True)}


def lost_cluster() -> Ref:
    """Store a cluster that was Ready and is heard of no more."""
    made = cluster("member1")
    down = (Condition("Ready", "Unknown", last_transition_time=START),)
    return stored(made.with_status(conditions=down))[0].ref  # type: ignore[no-any-return]


def one_row_of_each() -> None:
    """Store one row-native value of every type, an Event, and what is due for them."""
    some = stored(cluster("member1", "NoExecute"))[0]
    queued = eviction("web", "member1")
    rows = (
        Observation("member1", status="True"),
        Collected("member1", kubernetes_version="v1.31.0"),
        MatchWindow("policy|member1", policy="policy", cluster="member1", since=START),
        queued,
        FleetState("default"),
        CapacityReservation(queued.key, queued.binding, queued.cluster, replicas=2),
    )
    reported = Event(some, "ClusterNotReady", "probes fail", warning=True)
    decision = Decision(changes=tuple(Save(row) for row in rows), events=(reported,))
    store().apply([(None, decision)], by=Actor("jane"))


def change(old: Object, new: Object, *, by: str = "another") -> Any:
    """Store a change as another user and return the object."""
    outcome = store().apply([(None, Decision(changes=(Put(new, old),), reason="Test"))], by=Actor(by))[0]
    assert not outcome.lost, outcome.lost
    return outcome.objects[0]


def confirmed(client: Client, url: str, sent: dict[str, Any] | None = None, *, reason: str = "a test") -> Any:
    """Post to a page of the admin and confirm what it asks; return the last answer, after all redirects."""
    asked = client.post(url, sent or {}, follow=True)
    context = asked.context or {}
    if "question" not in context:
        return asked
    again: dict[str, Any] = {"reason": reason, "typed": context["subject"], "concerned": context["concerned"]}
    for name, value in context["hidden"]:
        again.setdefault(name, []).append(value)
    return client.post(url, again, follow=True)


def found(ref: Ref) -> Any:
    """Return what is stored under a reference, None where nothing is."""
    return store().get([ref]).get(ref)


def page_of(obj: Object, page: str = "change") -> str:
    """Return the URL of an object's page."""
    model = object_table(obj.ref.kind).model
    row = model._default_manager.get(kind=obj.ref.kind, namespace=obj.metadata.namespace, name=obj.metadata.name)
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=[row.pk])


def list_of(key: str) -> str:
    """Return the URL of a kind's list."""
    model = object_table(key).model
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def text_in(client: Client, url: str) -> str:
    """Return the manifest a page offers for editing."""
    said = client.get(url).content.decode()
    held = re.search(r"<textarea[^>]*>\r?\n?(.*?)</textarea>", said, re.DOTALL)
    assert held is not None, "the page has no manifest to edit"
    return unescape(held.group(1))


def basis_in(client: Client, url: str) -> str:
    """Return the version the form of a page rests on."""
    held = re.search(r'name="basis" value="(\d+)"', client.get(url).content.decode())
    assert held is not None, "the form rests on no version"
    return held.group(1)


def save(client: Client, url: str, text: str, *, basis: str | None = None) -> Any:
    """Send a manifest as the form of a page does, and confirm it if the page asks."""
    basis = basis_in(client, url) if basis is None else basis
    return confirmed(client, url, {"document": text, "basis": basis, "_continue": "1"})

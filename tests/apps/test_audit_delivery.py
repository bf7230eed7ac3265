"""Audit events in the database: searched in the admin, posted to a webhook at least once, removed when they are old."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.objects import audit
from apps.objects.models import AuditEvent as Stored
from apps.objects.store import store
from apps.objects.writer import Author, Change, Writer
from apps.worker import audit_delivery
from apps.worker.audit_delivery import MORE_SECONDS, AuditDelivery
from apps.worker.leased_thread import LEASE_SECONDS, LOOK_SECONDS, SELDOM_SECONDS
from controlplane.engine.decision import Decision, Put, Save
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds import NAMESPACE
from controlplane.kinds.rows import AuditEvent
from controlplane.settings import Settings
from tests.apps.hook import Hook

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "only-for-the-webhook"


@pytest.fixture
def hook(settings: Any) -> Iterator[Hook]:
    with Hook() as running:
        settings.AUDIT_WEBHOOK, settings.AUDIT_WEBHOOK_TOKEN = running.url, TOKEN
        yield running


def write(name: str = "shop") -> None:
    Writer(store(), Settings(), Author("eva", "Test")).create(
        KINDS[NAMESPACE], {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )


def delivery() -> AuditDelivery:
    return AuditDelivery(store(), threading.Event())


def test_a_command_is_recorded_under_the_name_of_its_author() -> None:
    write()

    (row,) = Stored.objects.all()

    assert (row.username, row.verb, row.resource, row.name, row.code) == ("eva", "create", "namespaces", "shop", 201)


def test_a_write_that_is_refused_by_the_database_leaves_no_event() -> None:
    write()
    live = store().get([KINDS[NAMESPACE].ref("", "shop")]).popitem()[1]
    stale = live.with_meta(labels={"a": "1"})
    write_again = Writer(store(), Settings(), Author("eva", "Test"))
    write_again.act(live.ref, lambda one: one.with_meta(labels={"b": "2"}))
    before = Stored.objects.count()

    assert write_again.attempt(Change(Put(stale, live, exact=True))) is None
    assert Stored.objects.count() == before


def test_events_are_posted_as_an_event_list_and_marked(hook: Hook) -> None:
    write("one")
    write("two")

    delivery().work()

    ((token, sent),) = hook.received
    assert token == f"Bearer {TOKEN}"
    assert (sent["kind"], sent["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
    assert [one["objectRef"]["name"] for one in sent["items"]] == ["one", "two"]
    delivery().work()
    assert len(hook.received) == 1


def test_events_that_the_webhook_refuses_are_sent_again(
    hook: Hook, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    clock = [1000.0]
    monkeypatch.setattr(audit_delivery, "monotonic_seconds", lambda: clock[0])
    sender = delivery()
    waits = []
    for status in (500, 500, 200):
        hook.status = status
        waits.append(sender.work())
        clock[0] += waits[-1]

    assert waits == [4, 8, LOOK_SECONDS]
    assert len(hook.received) == 3
    assert not Stored.objects.filter(unsent=True).exists()
    assert TOKEN not in caplog.text


def test_a_backlog_is_sent_by_one_process_although_it_takes_longer_than_the_lease(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_delivery, "BATCH", 1)
    clock = count(step=int(LEASE_SECONDS / 3))  # each request takes so long
    monkeypatch.setattr(audit_delivery, "monotonic_seconds", lambda: next(clock))
    for number in range(5):
        write(f"shop{number}")
    sender = delivery()

    assert sender.work() == 0, "the lease is renewed before the rest is sent"
    assert 0 < len(hook.received) < 3
    while Stored.objects.filter(unsent=True).exists():
        sender.work()

    assert [sent["items"][0]["objectRef"]["name"] for _, sent in hook.received] == [f"shop{n}" for n in range(5)]


def test_events_are_removed_after_their_days(settings: Any) -> None:
    settings.AUDIT_DAYS = 30
    write()
    row = AuditEvent("old", at=store().now() - timedelta(days=31), document="{}")
    store().apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))

    delivery().work()

    assert [row.name for row in Stored.objects.all()] == ["shop"]


def old_events(count: int) -> None:
    at = store().now() - timedelta(days=31)
    rows = tuple(Save(AuditEvent(f"old{number}", at=at, document="{}")) for number in range(count))
    store().apply([(None, Decision(changes=rows))], by=Actor("test"))


def test_a_backlog_of_old_events_is_removed_at_once(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The days were made fewer because the disk is nearly full, or more is written than one batch in 20 s removes."""
    settings.AUDIT_DAYS = 30
    monkeypatch.setattr(audit_delivery, "REMOVED", 2)
    old_events(5)
    remover = delivery()

    waits = [remover.work() for _ in range(3)]

    assert not Stored.objects.exists()
    assert waits == [MORE_SECONDS, MORE_SECONDS, pytest.approx(SELDOM_SECONDS, abs=5)]


def test_a_backlog_of_old_events_is_removed_while_the_webhook_is_away(
    settings: Any, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AUDIT_DAYS = 30
    monkeypatch.setattr(audit_delivery, "REMOVED", 2)
    clock = [1000.0]
    monkeypatch.setattr(audit_delivery, "monotonic_seconds", lambda: clock[0])
    write()
    old_events(5)
    hook.status = 500
    sender = delivery()

    waits = [sender.work() for _ in range(3)]
    tried = len(hook.received)
    clock[0] += waits[-1]
    sender.work()

    assert [row.name for row in Stored.objects.all()] == ["shop"]
    assert waits == [MORE_SECONDS, MORE_SECONDS, 4]
    assert (tried, len(hook.received)) == (1, 2), "the webhook is asked no more often for that"


def test_events_are_lines_of_a_file(tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "audit.log")
    audit.log.addHandler(handler)
    audit.log.setLevel(logging.INFO)
    try:
        write()
    finally:
        audit.log.removeHandler(handler)

    (line,) = (tmp_path / "audit.log").read_text().splitlines()
    assert json.loads(line)["objectRef"]["name"] == "shop"


def test_administrators_search_events_and_other_staff_does_not(admin_client: Client, django_user_model: Any) -> None:
    write("one")
    write("two")
    path = reverse("admin:objects_auditevent_changelist")

    found = admin_client.get(path, {"q": "two"}).content.decode()
    page = admin_client.get(reverse("admin:objects_auditevent_change", args=[Stored.objects.get(name="two").pk]))
    staff = Client()
    staff.force_login(django_user_model.objects.create_user("eva", is_staff=True))

    assert "two" in found
    assert ">one<" not in found
    assert "kind: Event" in page.content.decode()
    assert staff.get(path).status_code == 403

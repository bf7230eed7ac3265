"""Notices: written with their cause, sent at least once by webhook and e-mail, tried again, and seen in the admin."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message
from django.test import Client
from msgspec.structs import replace

from apps.api import debug
from apps.api.debug import FleetCollector
from apps.failover import models
from apps.objects.store import store
from apps.worker.notices import Sender, back_off
from config.env import MailServer
from controlplane.engine.decision import Decision, Event, Guard, Put, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import Notice
from tests.api.server import free_ports
from tests.apps.hook import Hook
from tests.builders.objects import cluster

pytestmark = pytest.mark.django_db(transaction=True)

TOKEN = "only-for-the-webhook"


@pytest.fixture
def hook(settings: Any) -> Iterator[Hook]:
    with Hook() as running:
        settings.NOTIFY_WEBHOOK, settings.NOTIFY_WEBHOOK_TOKEN = running.url, TOKEN
        yield running


@pytest.fixture
def inbox(settings: Any) -> Iterator[list[Any]]:
    """A mail server; what it accepted."""
    accepted: list[Any] = []

    class Keep(Message):
        def handle_message(self, message: Any) -> None:
            accepted.append(message)

    (port,) = free_ports(1)
    server = Controller(Keep(), hostname="127.0.0.1", port=port)
    server.start()
    settings.NOTIFY_EMAIL, settings.NOTIFY_FROM = ["operators@example.com"], "lifeboat@example.com"
    settings.NOTIFY_SMTP = MailServer("127.0.0.1", port, "", "", tls=False, starttls=False)
    yield accepted
    server.stop()


def lose(name: str, *guards: Guard) -> None:
    """Store that a cluster is not Ready any more, as the controller does."""
    old = store().apply([(None, Decision(changes=(Put(cluster(name), None),)))], by=Actor("test"))[0].objects[0]
    assert old is not None
    new = old.with_status(conditions=cluster(name, ready="False").status.conditions)
    event = Event(new, "ClusterReadyChanged", f"cluster {name} is Ready=False: no answer", warning=True)
    decision = Decision(changes=(Put(new, old),), events=(event,), guards=guards)
    store().apply([(None, decision)], by=Actor("test"))


def make_due() -> None:
    """Make all notices that wait due now, as if their time had come."""
    rows = [Notice(**one) for one in models.Notice.objects.filter(sent_at=None).values(*Notice.__struct_fields__)]
    past = store().now() - timedelta(seconds=1)
    saves = tuple(Save(replace(one, due_at=past)) for one in rows)
    store().apply([(None, Decision(changes=saves))], by=Actor("test"))


def sender() -> Sender:
    return Sender(store(), threading.Event())


def test_a_notice_is_stored_with_its_cause_for_each_channel_that_is_set(hook: Hook, inbox: list[Any]) -> None:
    lose("member1")
    lose("member2", Guard(cluster("missing").ref, 7))  # the decision is lost, and its notice with it

    stored = models.Notice.objects.order_by("channel")

    assert [(one.channel, one.topic, one.subject, one.count) for one in stored] == [
        ("e-mail", "ClusterDown", "member1", 1),
        ("webhook", "ClusterDown", "member1", 1),
    ]
    assert hook.received == [], "nothing is sent by the transaction"


def test_without_a_channel_nothing_is_stored() -> None:
    lose("member1")

    assert not models.Notice.objects.exists()


def test_both_channels_get_one_message_with_what_was_due(hook: Hook, inbox: list[Any]) -> None:
    lose("member1")
    lose("member2")
    make_due()

    sending = sender()
    sending.work()
    sending.work()  # everything was sent

    ((authorization, body),) = hook.received
    assert authorization == f"Bearer {TOKEN}"
    assert sorted(one["subject"] for one in body["notices"]) == ["member1", "member2"]
    assert body["notices"][0]["text"].endswith("is Ready=False: no answer")
    (mail,) = inbox
    assert (mail["To"], mail["From"]) == ("operators@example.com", "lifeboat@example.com")
    assert mail["Subject"].startswith("Lifeboat: ClusterDown member")
    assert "cluster member2 is Ready=False: no answer" in mail.get_payload()
    assert not models.Notice.objects.filter(sent_at=None).exists()


@pytest.mark.parametrize("status", [500, 302])
def test_a_message_that_was_not_accepted_is_tried_again_later(hook: Hook, status: int) -> None:
    lose("member1")
    make_due()
    hook.status = status

    sender().work()
    sender().work()  # not due yet

    one = models.Notice.objects.get()
    assert (one.sent_at, one.attempts, one.error) == (None, 1, f"127.0.0.1 answered {status}")
    assert one.due_at > store().now()
    assert len(hook.received) == 1
    hook.status = 200
    make_due()
    sender().work()
    again = models.Notice.objects.get()
    assert again.sent_at is not None
    assert (again.attempts, again.error) == (2, "")
    assert [body["notices"][0]["id"] for _, body in hook.received] == [one.key, one.key], "receivers can tell"


def test_a_channel_that_fails_does_not_keep_the_other_waiting(hook: Hook, settings: Any) -> None:
    settings.NOTIFY_EMAIL = ["operators@example.com"]
    settings.NOTIFY_SMTP = MailServer("127.0.0.1", 1, "user", "mail-password", tls=False, starttls=False)
    lose("member1")
    make_due()

    sender().work()

    waiting = models.Notice.objects.get(sent_at=None)
    assert waiting.channel == "e-mail"
    assert "127.0.0.1 did not accept the message: ConnectionRefusedError" in waiting.error
    assert "mail-password" not in waiting.error
    assert len(hook.received) == 1


def test_a_webhook_without_http_is_tried_again_later_and_keeps_no_mail_waiting(settings: Any, inbox: list[Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

        threading.Thread(target=greet, daemon=True).start()
        settings.NOTIFY_WEBHOOK = f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        lose("member1")
        make_due()

        sender().work()

    waiting = models.Notice.objects.get(sent_at=None)
    assert (waiting.channel, waiting.attempts) == ("webhook", 1)
    assert waiting.error == "127.0.0.1 did not answer with HTTP: BadStatusLine"
    assert waiting.due_at > store().now()
    assert len(inbox) == 1


def test_the_wait_between_attempts_doubles_up_to_a_quarter_of_an_hour() -> None:
    assert [back_off(attempts).total_seconds() for attempts in (1, 2, 3, 8, 9, 1000)] == [5, 10, 20, 640, 900, 900]


def test_old_notices_are_removed_and_waiting_ones_stay(hook: Hook) -> None:
    lose("member1")
    make_due()
    sender().work()
    lose("member2")
    sent = Notice(**models.Notice.objects.exclude(sent_at=None).values(*Notice.__struct_fields__).get())
    long_ago = store().now() - timedelta(days=31)
    store().apply([(None, Decision(changes=(Save(replace(sent, sent_at=long_ago)),)))], by=Actor("test"))

    sender().work()

    assert [one.subject for one in models.Notice.objects.all()] == ["member2"]


def test_the_staff_sees_notices_and_why_one_waits(hook: Hook, root: Client) -> None:
    lose("member1")
    make_due()
    hook.status = 503
    sender().work()

    page = root.get("/admin/failover/notice/").content.decode()

    assert "127.0.0.1 answered 503" in page
    assert "ClusterDown" in page


@pytest.mark.parametrize("off", ["webhook", "e-mail"])
def test_notices_of_a_channel_that_was_switched_off_do_not_stop_the_other_channel(
    hook: Hook, inbox: list[Any], settings: Any, off: str
) -> None:
    """Its receiver is broken, so an operator removes the variable, while notices for it wait."""
    lose("member1")
    make_due()
    if off == "webhook":
        settings.NOTIFY_WEBHOOK = ""
    else:
        settings.NOTIFY_EMAIL, settings.NOTIFY_SMTP = [], None

    sender().work()
    lose("member2")
    make_due()
    sender().work()

    left = models.Notice.objects.filter(sent_at=None)
    assert {one.channel for one in left} == {off}
    assert {one.error for one in left} == {"this channel is not set any more"}
    assert len(hook.received) + len(inbox) == 2
    rows = [Notice(**one) for one in left.values(*Notice.__struct_fields__)]
    old = tuple(Save(replace(one, at=store().now() - timedelta(days=31))) for one in rows)
    store().apply([(None, Decision(changes=old))], by=Actor("test"))
    sender().work()
    assert not models.Notice.objects.filter(sent_at=None).exists()


def test_a_notice_that_its_receiver_has_refused_for_a_month_is_still_sent(hook: Hook) -> None:
    lose("member1")
    one = Notice(**models.Notice.objects.values(*Notice.__struct_fields__).get())
    past = replace(one, at=store().now() - timedelta(days=31))
    store().apply([(None, Decision(changes=(Save(past),)))], by=Actor("test"))
    make_due()
    hook.status = 500
    sender().work()

    hook.status = 200
    make_due()
    sender().work()

    assert len(hook.received) == 2


def test_the_age_of_the_oldest_notice_is_a_metric_until_it_is_sent(hook: Hook) -> None:
    """Attempts are a quarter of an hour apart in the end: an alert about their number ends while nothing is sent."""
    lose("member1")

    (waiting,) = ages()
    make_due()
    sender().work()

    assert waiting.labels == {"channel": "webhook"}
    assert waiting.value > 0
    assert [one.value for one in ages()] == [0.0]


def ages() -> list[Any]:
    debug._last = None
    family = next(one for one in FleetCollector().collect() if one.name == "lifeboat_notices_oldest_seconds")
    return list(family.samples)

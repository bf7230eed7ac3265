"""The page of the queue shows what the database has, and costs the same for a long queue as for a short one."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.objects.store import store
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import HELD, QUEUED
from tests.apps.pages import eviction, in_queue, lost_cluster, stored
from tests.apps.statements import statements
from tests.builders import objects
from tests.builders.placements import duplicated
from tests.stores.grounds import binding

HTML = "text/html"


def text(client: Client, path: str) -> str:
    """Return the text of a page, without tags."""
    answer = client.get(path, HTTP_ACCEPT=HTML)
    assert answer.status_code == 200, answer.content
    body = re.sub(r"<(head|script)\b.*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def test_an_empty_queue_says_so(root: Client) -> None:
    shown = text(root, "/queue")

    assert "No eviction waits" in shown
    assert "The queue is empty" in shown
    assert "kubectl get evictions -A" in shown


def test_each_item_has_its_place_reason_origin_and_time(root: Client) -> None:
    in_queue("web", "api")

    shown = text(root, "/queue")

    assert "2 evictions waiting" in shown
    assert "1 to 2 of 2" in shown
    assert shown.index("api") < shown.index("web")
    assert "Queued" in shown
    assert "member1" in shown

"""A form of an act that is sent twice, as a double click sends it, does what it says once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from apps.objects.store import store
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from tests.apps.guarded_acts import fleet

pytestmark = pytest.mark.django_db(transaction=True)

HTML = "text/html"
DRILL_FORM = {"mode": "Simulated", "clusters": "member1", "seconds": "60", "without_place": "0", "healthy": "1"}
FORMS: dict[str, tuple[str, dict[str, str], str]] = {
    "drain": ("/clusters/member1/drain", {"rate": "1"}, DRAIN),
    "maintenance": ("/clusters/member1/maintenance", {"minutes": "60"}, MAINTENANCE_WINDOW),
    "failback": ("/clusters/member1/failback", {"rate": "1", "at_once": "2"}, FAILBACK),
    "drill": ("/drills/start", DRILL_FORM, DRILL),
    "rebalance": ("/bindings/default/web0-deployment/rebalance", {}, WORKLOAD_REBALANCER),
    "pause": ("/pause", {}, EVICTION_HOLD),
}


def form_at(client: Client, path: str, values: dict[str, str]) -> dict[str, str]:
    """Return the fields with which a browser would send the form that confirms an act."""
    page = client.get(f"{path}?{urlencode(values)}", HTTP_ACCEPT=HTML).content.decode()
    confirm = page.partition('<form method="post" class="stack">')[2]
    assert confirm, page
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', confirm))
    return {**hidden, "reason": "disk swap", "typed": "member1"}


@pytest.mark.parametrize("act", FORMS)
def test_a_form_that_is_sent_again_creates_nothing_more_and_leads_to_the_same_page(root: Client, act: str) -> None:
    path, values, kind = FORMS[act]
    fleet(1)
    sent = form_at(root, path, values)

    answers = [root.post(path, sent, HTTP_ACCEPT=HTML) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert len(store().list(kind)) == 1


def test_a_form_that_is_sent_again_later_is_not_called_done(root: Client) -> None:
    """A browser may show the page again that it had, with the form that was sent before."""
    path, values, _ = FORMS["drain"]
    fleet(1)
    sent = form_at(root, path, values)

    first, again = (root.post(path, sent, HTTP_ACCEPT=HTML, follow=True).content.decode() for _ in range(2))

    assert "Drain member1: done" in first
    assert "Drain member1: done" not in again
    assert "this form was sent before" in again


def test_rates_that_are_sent_again_are_set(root: Client) -> None:
    fleet(1)
    sent = form_at(root, "/queue/rates", {"rate": "5", "secondary": "1"})

    answers = [root.post("/queue/rates", sent, HTTP_ACCEPT=HTML) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]


def test_two_requests_of_a_form_at_the_same_time_create_one_drain(root: Client) -> None:
    fleet(1)
    sent = form_at(root, "/clusters/member1/drain", {"rate": "1"})

    def post(_: int) -> int:
        try:
            return int(root.post("/clusters/member1/drain", sent, HTTP_ACCEPT=HTML).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(post, range(4))) == [303] * 4

    assert len(store().list(DRAIN)) == 1


def test_the_form_of_a_second_visit_creates_a_second_object(root: Client) -> None:
    fleet(1)

    for _ in range(2):
        sent = form_at(root, "/drills/start", DRILL_FORM)
        assert root.post("/drills/start", sent, HTTP_ACCEPT=HTML).status_code == 303

    assert len(store().list(DRILL)) == 2


def test_a_form_that_was_refused_keeps_its_number(root: Client) -> None:
    path, values, kind = FORMS["drain"]
    fleet(1)
    sent = form_at(root, path, values)

    refused = root.post(path, {**sent, "reason": ""}, HTTP_ACCEPT=HTML)

    assert refused.status_code == 422
    assert f'name="once" value="{sent["once"]}"' in refused.content.decode()
    assert not store().list(kind)


def test_a_pause_of_another_user_is_not_taken_for_the_own(root: Client) -> None:
    fleet(1)
    sent = form_at(root, "/pause", {})
    assert root.post("/pause", sent, HTTP_ACCEPT=HTML).status_code == 303

    again = root.post("/pause", {**sent, "reason": "another reason"}, HTTP_ACCEPT=HTML)
    ann = Client()
    ann.force_login(get_user_model().objects.create_superuser("ann"))
    hers = ann.post("/pause", sent, HTTP_ACCEPT=HTML)

    for answer in (again, hers):
        assert answer.status_code == 422
        assert "already exists" in answer.content.decode()

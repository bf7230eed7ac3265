"""A form of an act that is sent twice, as a double click sends it, does what it says once."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from apps.objects.store import store
from controlplane.kind import KINDS
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.drill import DRILL
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from tests.apps.guarded_acts import MEMBER1, fence, fleet, held
from tests.apps.pages import change, found
from tests.apps.test_console_queue import plain

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


class End(NamedTuple):
    """An act that takes something away. `kind`: of the order that it ends, named in the path.

    `again`: what is said when its form is sent again.
    """

    path: str
    again: str
    values: dict[str, str] = {}
    kind: str = ""


ENDS: dict[str, End] = {
    "resume": End("/resume/pause", "Resume evictions: nothing to do, because the pause pause has ended already."),
    "untaint": End(
        "/clusters/member1/untaint",
        "Remove a taint: nothing to do, because member1 has no taint power:NoExecute any more.",
        {"key": "power", "effect": "NoExecute"},
    ),
    "unjoin": End(
        "/clusters/member1/unjoin", "Unjoin: nothing to do, because member1 is being unjoined.", {"copies": "keep"}
    ),
    "unjoin one that is gone": End(
        "/clusters/member4/unjoin", "Unjoin: nothing to do, because member4 has left.", {"copies": "keep"}
    ),
    "unfence": End("/clusters/member3/unfence", "nothing to do, because member3 has no fence any more."),
    "maintenance": End(
        "/orders/maintenancewindows/{name}/end",
        "End the maintenance: nothing to do, because the maintenancewindow {name} has ended already.",
        kind=MAINTENANCE_WINDOW,
    ),
    "drain": End("/orders/drains/{name}/resume", "nothing to do, because the drain {name} runs already.", kind=DRAIN),
}


@pytest.mark.parametrize("act", ENDS)
def test_an_act_that_ends_something_says_so_when_it_is_sent_again(root: Client, act: str) -> None:
    end, name = ENDS[act], ""
    fleet(1)
    held(1)
    fence(1)
    if end.kind:
        plural = KINDS[end.kind].resource.plural
        where = {"drains": "/clusters/member1/drain", "maintenancewindows": "/clusters/member1/maintenance"}[plural]
        root.post(where, form_at(root, where, {"rate": "1", "minutes": "5"}), HTTP_ACCEPT=HTML)
        (made,) = store().list(end.kind)
        name = made.metadata.name
    if end.kind == DRAIN:
        root.post(stop := f"/orders/drains/{name}/stop", form_at(root, stop, {}), HTTP_ACCEPT=HTML)
    path = end.path.format(name=name)
    sent = {**form_at(root, path, end.values), "typed": path.split("/")[2]}
    if act == "unjoin":
        old = found(MEMBER1)
        change(old, old.with_meta(finalizers=("karmada.io/cluster-controller",)))

    first, again = (root.post(path, sent, HTTP_ACCEPT=HTML, follow=True) for _ in range(2))

    said = [plain(answer.content.decode()) for answer in (first, again)]
    assert [answer.redirect_chain[0][1] for answer in (first, again)] == [303, 303], said
    assert first.redirect_chain == again.redirect_chain or act == "maintenance"  # which no longer names its cluster
    assert ": done. Reason: disk swap" in said[0]
    assert ": done. Reason: disk swap" not in said[1]
    assert end.again.format(name=name) in said[1]


def test_rates_that_are_sent_again_are_set(root: Client) -> None:
    fleet(1)
    sent = form_at(root, "/queue/rates", {"rate": "5", "secondary": "1"})

    answers = [root.post("/queue/rates", sent, HTTP_ACCEPT=HTML) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [303, 303]


def test_two_requests_of_a_form_at_the_same_time_create_one_drain(root: Client) -> None:
    fleet(1)
    sent = form_at(root, "/clusters/member1/drain", {"rate": "1"})

    with ThreadPoolExecutor(4) as threads:
        statuses = threads.map(lambda _: posted(root, "/clusters/member1/drain", sent), range(4))

    assert list(statuses) == [303] * 4

    assert len(store().list(DRAIN)) == 1


def test_requests_of_a_form_at_the_same_time_end_a_pause_and_none_finds_it_missing(root: Client) -> None:
    """One of them may look while the hold is there, and compare what it has seen when it is gone."""
    fleet(1)
    held(1)
    statuses: list[int] = []

    for number in range(15):
        if number:
            root.post("/pause", form_at(root, "/pause", {}), HTTP_ACCEPT=HTML)
        sent = form_at(root, "/resume/pause", {})
        with ThreadPoolExecutor(4) as threads:
            statuses += threads.map(lambda _, form=sent: posted(root, "/resume/pause", form), range(4))

    assert statuses == [303] * 60


def posted(client: Client, path: str, sent: dict[str, str]) -> int:
    """Return the status of the answer to a form, in a thread of its own."""
    try:
        return int(client.post(path, sent, HTTP_ACCEPT=HTML).status_code)
    finally:
        connection.close()


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
        assert "root has paused all evictions already: disk swap" in answer.content.decode()

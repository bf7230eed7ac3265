"""A form or a part that is sent after its login has ended: what was chosen is found again, and nothing is done."""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.objects.models import ChangeLog
from tests.apps.pages import in_queue, stored
from tests.apps.test_console_pages import HTML
from tests.builders.bare import cluster

SENT = {"reason": "a test", "typed": "member1", "concerned": "1", "once": "0123abcd", "basis": "x"}
FORMS = [
    pytest.param("/clusters/member1/drain", {"rate": "2"}, "/clusters/member1/drain?rate=2", id="drain"),
    pytest.param("/pause", {}, "/pause", id="without parameters"),
    pytest.param(
        "/queue/order",
        {"verb": "Hold", "item": "shop/web.member1,shop/api.member1"},
        "/queue/order?verb=Hold&item=shop%2Fweb.member1%2Cshop%2Fapi.member1",
        id="order",
    ),
    pytest.param("/queue/order", {"verb": "Hold", "item": "shop/web.member1," * 600}, "/queue/order", id="too long"),
]


@pytest.mark.parametrize(("path", "values", "wanted"), FORMS)
def test_after_the_login_a_form_is_shown_again_as_it_was_filled_in(
    root: Client, path: str, values: dict[str, str], wanted: str
) -> None:
    answer = Client().post(path, {**values, **SENT}, HTTP_ACCEPT=HTML)

    assert answer.status_code == 302
    assert parse_qs(urlsplit(answer["Location"]).query)["next"] == [wanted]


@pytest.mark.parametrize(("path", "values", "wanted"), FORMS)
def test_a_form_of_an_earlier_login_does_nothing_and_leads_to_its_dry_run(
    root: Client, path: str, values: dict[str, str], wanted: str
) -> None:
    """A user who logs in again in another tab has another token there."""
    stored(cluster("member1"))
    in_queue("web", "api")
    browser, before = Client(enforce_csrf_checks=True), ChangeLog.objects.count()
    browser.force_login(User.objects.get(username="root"))

    answer = browser.post(path, {**values, **SENT, "csrfmiddlewaretoken": "x" * 64}, HTTP_ACCEPT=HTML)

    text = answer.content.decode()
    assert answer.status_code == 403
    assert "Nothing was done: this form is older than your login, or comes from another site" in text
    assert f'<a class="button" href="{escape(wanted)}">Open the page again</a>' in text
    assert ChangeLog.objects.count() == before


def test_a_part_that_is_renewed_after_the_login_has_ended_leads_back_to_its_page_with_the_filter(root: Client) -> None:
    answer = Client().get("/queue?cluster=member1&state=Held&part=queue", HTTP_ACCEPT=HTML)

    assert answer.status_code == 401
    assert parse_qs(urlsplit(answer["HX-Redirect"]).query)["next"] == ["/queue?cluster=member1&state=Held"]

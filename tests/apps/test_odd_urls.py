"""Pages answer a URL that makes no sense with what is wrong about it, and not with an error of the server."""

from __future__ import annotations

from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client

from tests.apps.pages import lost_cluster

pytestmark = pytest.mark.django_db(transaction=True)

HTML = "text/html"
DIGITS = "9" * 5000  # Python converts at most 4300 digits
FIRST, LAST = "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"


@pytest.mark.parametrize("path", ["/records", "/records.md"])
@pytest.mark.parametrize(("name", "time"), [("since", FIRST), ("until", LAST), ("since", "yesterday")])
def test_a_time_outside_the_calendar_is_refused(root: Client, path: str, name: str, time: str) -> None:
    answer = root.get(f"{path}?{urlencode({name: time})}", HTTP_ACCEPT=HTML)

    assert answer.status_code == 400
    assert f'{name}: "{time}" is not a time' in unescape(answer.content.decode())


@pytest.mark.parametrize(
    "path",
    ["/records/web.{}", "/records/{}.md", "/admin/clusters/cluster/{}/change/", "/admin/objects/changelog/{}/change/"],
)
@pytest.mark.parametrize("number", [DIGITS, "9" * 19, "²", "٣"])
def test_a_number_that_no_row_has_is_not_found(root: Client, path: str, number: str) -> None:
    assert root.get(path.format(number), HTTP_ACCEPT=HTML).status_code == 404


@pytest.mark.parametrize("concerned", [DIGITS, "²", "-1", ""])
def test_an_act_does_not_stumble_over_an_odd_number_of_workloads(root: Client, concerned: str) -> None:
    lost_cluster()
    sent = {"reason": "because we test", "concerned": concerned}

    assert root.post("/clusters/member1/cordon", sent, HTTP_ACCEPT=HTML).status_code == 303

"""A field of a form names its hint and its error, so that a screen reader reads them with the field."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from tests.apps.guarded_acts import fleet
from tests.apps.pages import found, page_of
from tests.apps.test_stale_forms import MEMBER6

pytestmark = pytest.mark.django_db(transaction=True)

HTML = "text/html"
WRONG: dict[str, tuple[str, dict[str, str]]] = {
    "drain": ("/clusters/member1/drain", {"rate": "0"}),
    "drill": ("/drills/start", {"seconds": "soon", "mode": "?"}),
    "what if": ("/what-if", {"policy": "- a", "tainted": "member1", "effect": "NoExecute"}),
    "confirmation": ("/clusters/member1/drain", {"rate": "1", "typed": "other", "concerned": "12"}),
}


def described(page: str) -> tuple[set[str], set[str]]:
    """Return the ids that fields refer to, and those of them that the page does not have."""
    named = {one for text in re.findall(r'aria-describedby="([^"]*)"', page) for one in text.split()}
    return named, named - set(re.findall(r'\bid="([^"]*)"', page))


@pytest.mark.parametrize("form", WRONG)
def test_hints_and_errors_that_fields_refer_to_are_on_the_page(root: Client, redis_client: Any, form: str) -> None:
    fleet(12)
    path, sent = WRONG[form]

    answer = root.post(path, sent, HTTP_ACCEPT=HTML)

    assert answer.status_code == 422
    named, missing = described(answer.content.decode())
    assert any(one.endswith("_error") for one in named)
    assert missing == set()


def test_the_field_to_correct_has_the_focus_and_says_that_it_is_wrong(root: Client) -> None:
    fleet(12)
    path, sent = WRONG["confirmation"]

    both = root.post(path, sent, HTTP_ACCEPT=HTML).content.decode()
    typed = root.post(path, {**sent, "reason": "disk swap"}, HTTP_ACCEPT=HTML).content.decode()
    admin = root.post(page_of(found(MEMBER6), "delete"), {"reason": "", "concerned": "0"}).content.decode()

    wrong = 'aria-invalid="true" aria-describedby="{}_error"'
    assert f"{wrong.format('reason')} autofocus>" in both
    assert f"{wrong.format('typed')}>" in both
    assert f"{wrong.format('typed')} autofocus>" in typed
    assert f"{wrong.format('reason')} autofocus>" in admin
    assert described(admin)[1] == set()

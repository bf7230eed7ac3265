"""The pages that a process keeps for the time without a database: their text, and how much memory they take."""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest
from django.test import RequestFactory

from apps.console.kept_pages import MAX_BYTES, NOTICE_PLACE, KeptPages

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def request(number: int) -> HttpRequest:
    found = RequestFactory().get(f"/records/?q={number}")
    found.COOKIES[settings.SESSION_COOKIE_NAME] = "session"
    return found


def test_a_kept_page_is_shown_as_it_was_with_a_notice() -> None:
    pages = KeptPages()
    pages.keep(request(1), f"<p>member1 → member2</p>{NOTICE_PLACE}", at=NOW)
    found = pages.find(request(1))
    assert found is not None
    shown = found.text_with("the database is away")
    assert "<p>member1 → member2</p>" in shown
    assert "the database is away" in shown
    assert pages.find(request(2)) is None


def test_kept_pages_take_no_more_memory_than_their_limit_and_the_oldest_go_first() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz→·–0123456789"
    chance, pages, count = random.Random(7), KeptPages(), 130
    for number in range(count):
        pages.keep(request(number), "".join(chance.choices(letters, k=100_000)), at=NOW)
    found = [pages.find(request(number)) for number in range(count)]
    kept = [page for page in found if page is not None]
    assert 0 < len(kept) < count
    assert found[-len(kept) :] == kept
    assert sum(sys.getsizeof(page.packed) for page in kept) <= MAX_BYTES + 100 * len(kept)

"""Every page of the console is found by links: from Situation within three clicks, without typing a URL."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin, urlsplit

from django.test import Client
from django.urls import Resolver404, resolve

from apps.console.urls import app_name, urlpatterns
from tests.apps.test_console_pages import HTML
from tests.apps.test_console_records import outage
from tests.apps.test_console_rights import confirmed, fleet  # noqa: F401  # a fixture
from tests.apps.test_readiness_page import NO_REFUGE, answer, answers

CLICKS = 3
NOT_PAGES = {"stream", "development"}
ASKED_FOR = {"what-if-run"}  # the answer to the form of What if


def links(client: Client, url: str) -> set[str]:
    """Return the URLs of the console to which a page links."""
    answer = client.get(url, HTTP_ACCEPT=HTML)
    assert answer.status_code == 200, (url, answer.status_code)
    if not answer["Content-Type"].startswith("text/html"):
        return set()
    targets = (unescape(one) for one in re.findall(r'<a [^>]*href="([^"#]+)"', answer.content.decode()))
    return {urljoin(url, one) for one in targets}


def name_of(url: str) -> str:
    """Return the name of the page at a URL; "": it is no page of the console."""
    try:
        match = resolve(urlsplit(url).path)
    except Resolver404:
        return ""
    return match.url_name or "" if match.app_name == app_name else ""


def test_every_page_is_found_within_three_clicks(fleet: None, root: Client) -> None:  # noqa: F811
    outage("shop", member="member3")
    assert confirmed(root, "/clusters/member3/fence?minutes=5").status_code == 303
    answers(answer("web", NO_REFUGE))
    found, seen, rim = {"situation": 0}, {"/"}, {"/"}

    for click in range(1, CLICKS + 1):
        rim = {link for url in sorted(rim) for link in links(root, url) if name_of(link)} - seen
        seen |= rim
        for link in sorted(rim):
            found.setdefault(name_of(link), click)
        pages: dict[tuple[str, str], str] = {}  # of pages that differ in their parameters only, the first is read
        for link in sorted(rim):
            pages.setdefault((name_of(link), urlsplit(link).path), link)
        rim = set(pages.values())

    wanted = {pattern.name for pattern in urlpatterns} - NOT_PAGES - ASKED_FOR
    assert wanted - set(found) == set()  # Pause too: the one of the fleet ends by itself
    assert {found[name] for name in ("clusters", "queue", "records", "what-if", "readiness", "drills", "resume")} == {1}
    assert confirmed(root, "/resume/earlier").status_code == 303
    assert "/pause" in links(root, "/")

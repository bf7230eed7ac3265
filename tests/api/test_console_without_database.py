"""While the database is away, the console shows a session what it has seen last, with its time, and others nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.api.server import Server
from tests.api.test_browser_session import Browser


@contextmanager
def without_database(server: Server) -> Iterator[None]:
    """The server's database accepts no connections and ends those that it has."""
    server._sql(
        f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS false',
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{server.database}'",
    )
    try:
        yield
    finally:
        server._sql(f'ALTER DATABASE "{server.database}" ALLOW_CONNECTIONS true')
        server.await_sessions()


def test_the_last_page_is_shown_with_its_time_to_those_who_saw_it_and_to_no_one_else(server: Server) -> None:
    browser = Browser(server)
    assert browser.log_in("admin", "correct-horse-battery").status == 302
    before = browser.open("GET", "/").body.decode()
    at = re.search(r'as of <time[^>]*datetime="([^"]+)"', before)
    assert at is not None

    with without_database(server):
        kept = browser.open("GET", "/")
        never_seen = browser.open("GET", "/clusters")
        stranger = Browser(server).open("GET", "/")

    assert kept.status == 200
    shown = kept.body.decode()
    assert "The database does not answer." in shown
    assert at.group(1) in shown
    assert "<body data-kept " in shown  # the page loads itself again when its stream opens
    assert "the database refused this request" in shown
    assert never_seen.status == 503
    assert b"there is no earlier state to show" in never_seen.body
    assert stranger.status in (302, 503)
    assert b"sentence" not in stranger.body

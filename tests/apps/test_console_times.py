"""Times in texts of the console: in UTC, as elements to which a script adds the zone of the reader."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from apps.console.templatetags.console import moments, sentence
from controlplane.kinds.fleet_status import FleetStatusStatus

AT = datetime(2026, 11, 27, 22, 41, tzinfo=UTC)
SHOWN = (
    '<time class="utc" datetime="2026-11-27T22:41:00Z" data-style="date">2026-11-27 22:41:00 <small>UTC</small></time>'
)


@pytest.mark.parametrize("written", ["2026-11-27T22:41:00Z", "2026-11-27 22:41:00 UTC", "2026-11-27T22:41:00.123456Z"])
def test_a_time_in_a_text_is_shown_like_every_time(written: str) -> None:
    assert moments(f"<b> due {written}, not tolerated") == f"&lt;b&gt; due {SHOWN}, not tolerated"


@pytest.mark.parametrize("text", ["member1 & member2", "2026-11-27", "2026-13-01T00:00:00Z", "22:41:00 UTC", ""])
def test_what_is_no_time_stays_as_it_is(text: str) -> None:
    assert moments(text) == text.replace("&", "&amp;")


def test_the_time_since_when_all_clusters_are_ready_is_shown_like_every_time() -> None:
    status = FleetStatusStatus(ready_since=AT, sentence="All 3 clusters Ready since 22:41 UTC; 1 of 2 would fail over.")

    assert sentence(status) == (
        'All 3 clusters Ready since <time class="utc" datetime="2026-11-27T22:41:00Z" data-style="minute">22:41 '
        "<small>UTC</small></time>; 1 of 2 would fail over."
    )


@pytest.mark.parametrize("since", [AT, None])
def test_a_sentence_without_that_time_is_shown_whole(since: datetime | None) -> None:
    assert sentence(FleetStatusStatus(ready_since=since, sentence="Paused by <me>.")) == "Paused by &lt;me&gt;."

"""The console with 100 clusters and 10,000 workloads in an outage: pages are short enough, fit, and are usable."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Console
from tests.browser.walk import MAIN, walk

pytestmark = [pytest.mark.browser, pytest.mark.slow]
LONGEST = 20_000  # pixels of a page on a phone: 50 rows as cards
PATHS = (
    *MAIN,
    *("/clusters?offset=50", "/clusters/fleet-0000", "/queue?state=everything", "/queue?offset=50"),
    *("/bindings/shop/b1", "/clusters/fleet-0000/drain?rate=1", "/queue/rates?rate=2&secondary=1", "/pause"),
)


def test_every_page_is_usable_with_100_clusters_and_10000_workloads(console: Console) -> None:
    from apps.objects.store import store  # here: needs Django set up
    from tests.bench.console import BINDINGS, CLUSTERS, fill

    names = fill(store().now())
    assert (len(names), names[0], BINDINGS) == (CLUSTERS, "fleet-0000", 10_000)

    walk(console, PATHS)

    for path in PATHS:
        page = console.go(path)
        assert page.evaluate("document.documentElement.scrollHeight") < LONGEST, path
    page = console.go("/")
    assert page.locator(".strip li").count() == CLUSTERS
    assert "5 of 100 clusters down" in page.locator("#sentence").inner_text()

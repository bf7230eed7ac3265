"""One running product for all acceptance tests; each test finds the fleet healthy and empty."""

import os
from collections.abc import Iterator

import pytest
import redis

from tests.acceptance.live import Live, live


@pytest.fixture(scope="package")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The product with five members joined, on a database and a Redis database of its own."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    number = int(worker.removeprefix("gw"))
    url = f"{os.environ['REDIS_URL'].rsplit('/', 1)[0]}/{15 - number % 8}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    with live(tmp_path_factory.mktemp("live"), name=f"lifeboat_live_{worker}", redis_url=url) as running:
        yield running


@pytest.fixture
def fleet(whole: Live) -> Iterator[Live]:
    """The product, tidied when the test is over."""
    yield whole
    whole.tidy()


_count = 0


@pytest.fixture
def ns(fleet: Live) -> str:
    """A namespace of the test's own."""
    global _count
    _count += 1
    return fleet.namespace(f"accept-{_count}")

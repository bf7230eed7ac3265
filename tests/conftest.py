"""Fixtures all tests may ask for. The servers behind them are started by tests/services.py."""

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.emptied import empty_database
from tests.simulation.histogram import Histogram

if TYPE_CHECKING:
    from pytest_django import DjangoDbBlocker

    from tests.api.server import Client, Server

# How long an example takes says something of the machine, not of the claim.
hypothesis_settings.register_profile("claims", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.register_profile("quick", hypothesis_settings.get_profile("claims"), max_examples=20)  # make check
hypothesis_settings.load_profile("claims")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", default="1/1", metavar="K/N", help="collect the K-th of N parts of the test files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the test files of other parts. A file is always in the same part of N."""
    part, parts = map(int, config.getoption("part").split("/"))
    name = collection_path.relative_to(Path(__file__).parent).as_posix()
    left_out = collection_path.suffix == ".py" and crc32(name.encode()) % parts != part - 1
    return True if left_out else None


_trouble = Histogram()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up what the chaos tests saw, also those of other processes."""
    if report.when == "call":
        _trouble.add(report.user_properties)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which a kind of trouble happened too rarely."""
    if _trouble.rare and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how often each kind of trouble happened."""
    if lines := _trouble.lines():
        terminalreporter.section("trouble in the simulator")
        for line in lines:
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_modify_db_settings: None, django_db_blocker: "DjangoDbBlocker"
) -> Iterator[None]:
    """The test database, which is emptied after each test the fast way.

    pytest-django would make it only if a chosen test has its mark, which tests with `kept_database` have not.
    """
    from django.db import connection  # here: pure tests run without Django
    from django.test import TestCase, TransactionTestCase
    from django.test.utils import setup_databases, teardown_databases

    from apps.api.health import HEALTH
    from apps.objects.audit_queue import QUEUE

    roll_back = TestCase._fixture_teardown  # type: ignore[attr-defined]  # not in the stubs

    def empty(self: TransactionTestCase) -> None:
        QUEUE.stop()  # its thread must not meet a database that the next test may not use
        empty_database()

    def undo(self: TestCase) -> None:
        QUEUE.stop()
        roll_back(self)

    with django_db_blocker.unblock():
        # A thread that writes audit events of an earlier test would open the pool again, with the other database.
        QUEUE.stop()
        connection.close_pool()
        created = setup_databases(verbosity=0, interactive=False, aliases={"default"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty)
        patch.setattr(TestCase, "_fixture_teardown", undo)
        yield
    with django_db_blocker.unblock():
        HEALTH.close()  # pages have asked it, and it keeps a session of its own
        teardown_databases(created, verbosity=0)


@pytest.fixture(scope="module")
def kept_database(django_db_setup: None, django_db_blocker: "DjangoDbBlocker") -> Iterator[None]:
    """The test database, kept for all tests of a module: they share processes that work on it."""
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.fixture(scope="session")
def redis_url() -> str:
    """The Redis of this run; every pytest-xdist worker has a database of its own (`services.redis_of`)."""
    return os.environ["REDIS_URL"]


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[object]:
    """A connection to an empty Redis database."""
    import redis  # here: pure tests run without it

    with redis.Redis.from_url(redis_url) as client:
        client.flushdb()
        yield client


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Server"]:
    """A running API server with its own database; the tests of the API and of kubectl in one process share it."""
    from tests.api.server import Server  # here: pure tests run without Django

    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    with Server(tmp_path_factory.mktemp("api"), name=f"lifeboat_api_{worker}") as running:
        yield running


@pytest.fixture
def api(server: "Server") -> "Client":
    """A connection to `server` with an administrator's token."""
    return server.client()


_namespaces = itertools.count(1)


@pytest.fixture
def namespace(api: "Client") -> str:
    """A new namespace on `server`."""
    name = f"test-{os.getpid()}-{next(_namespaces)}"
    made = api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.status == 201, made.body
    return name


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The real kubectl."""
    return _program("kubectl", "kubectl")


@pytest.fixture(scope="session")
def chromium() -> Path:
    """A Chromium for playwright's `executable_path`. The one without windows opens a page for a quarter of the CPU."""
    return _program("Chromium", "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def _program(what: str, *names: str) -> Path:
    for name in names:
        if found := shutil.which(name):
            return Path(found)
    pytest.skip(f"{what} is not installed ({' or '.join(names)} not in PATH)")

"""The red lines of Situation say what does not work, and nothing that is not so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

import apps.console
from apps.api.health import HEALTH, LATE, UNKNOWN, HealthReport, Line
from apps.console.troubles import troubles
from tests.apps.test_console_pages import page

NAMES = ("database", "writes", "workers fleet/0", "workers failover/0", "members", "beat")


def lines(**problems: tuple[str, str]) -> HealthReport:
    """Return a report in which all checks pass but these, each with its problem and why it is one."""
    short = {name: name.replace("workers ", "").removesuffix("/0") for name in NAMES}
    found = {name: problems.get(short[name], ("", "")) for name in NAMES}
    return HealthReport(tuple(Line(name, problem, why=why) for name, (problem, why) in found.items()))


def test_workers_that_run_and_do_not_keep_up_are_not_said_to_be_away() -> None:
    """100,000 bindings are due at once in an outage. To start what runs already does not help."""
    behind = "held now, but the oldest due object waits for 75 s: it does not keep up, or fails; see its log"

    (workers,) = troubles(lines(failover=(behind, LATE)))
    (members,) = troubles(lines(members=(behind, LATE)))

    assert workers.meaning == "Workers run and do not keep up: what they decide is late"
    assert (workers.detail, workers.command) == (f"failover/0: {behind}", "lifeboat doctor")
    assert members.meaning.startswith("The members process runs and does not keep up")


def test_a_single_group_without_a_worker_is_named() -> None:
    (one,) = troubles(lines(failover=("not held", "")))
    (all_of_them,) = troubles(lines(fleet=("not held", ""), failover=("never seen", "")))

    assert one.meaning == "No worker runs failover/0: what is decided there waits"
    assert all_of_them.meaning == "No worker runs: nothing is decided"


def test_what_could_not_be_checked_is_not_said_to_be_away() -> None:
    away = dict.fromkeys(("fleet", "members", "beat"), ("not checked: the database does not answer", UNKNOWN))

    assert [one.meaning for one in troubles(lines(database=("refused", ""), **away))] == [
        "The database does not answer"
    ]
    assert troubles(lines(beat=("a lock", UNKNOWN)))[0].meaning == "It is not known whether the check beat would pass"


@pytest.fixture
def refused_write() -> Iterator[None]:
    """The database has refused a write of this process."""
    HEALTH._report = None
    HEALTH.note_refused("the disk is full")
    yield
    HEALTH._refused = HEALTH._report = None
    HEALTH.close()


def test_the_check_that_helps_is_named_at_the_address_of_the_page(root: Client, refused_write: None) -> None:
    """This process may listen at any port, behind a proxy."""
    shown = page(root, "/")

    assert "The database accepts no writes" in shown
    assert 'This helps: <a href="/readyz?verbose">/readyz?verbose</a>' in shown
    assert b"the disk is full" in root.get("/readyz?verbose").content
    folder = Path(apps.console.__file__).parent
    for file in ("templates/console/error.html", "templates/console/away.html", "static/console/console.js"):
        text = (folder / file).read_text()
        assert ("/readyz?verbose" in text, "127.0.0.1" in text) == (True, False), file

"""Whether a database was restored from a backup, and what may run until a person confirms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from controlplane.controllers import CONTROLLERS
from controlplane.engine import restored
from controlplane.engine.restored import Origin, RestoreHold, VersionMark, detect_restore
from controlplane.settings import Settings

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HERE = Origin("7711", 1, 16384)
FRESH, STALE = NOW - timedelta(seconds=2), NOW - timedelta(hours=2)


@pytest.mark.parametrize(
    ("kept", "found", "seen", "verdict"),
    [
        pytest.param(None, HERE, None, "Same", id="a new database"),
        pytest.param(HERE, HERE, None, "Same", id="the same one, and Redis was flushed"),
        pytest.param(HERE, HERE, VersionMark(100, FRESH), "Same", id="the same one, marked at its newest version"),
        pytest.param(HERE, HERE, VersionMark(90, STALE), "Same", id="the same one, after Redis was away"),
        pytest.param(HERE, HERE, VersionMark(101, FRESH), "Restored", id="the same one, but it was further on"),
        pytest.param(
            HERE, replace(HERE, database=2), VersionMark(101, FRESH), "Restored", id="created again, further back"
        ),
        pytest.param(HERE, replace(HERE, database=2), None, "Restored", id="created again, nothing remembered"),
        pytest.param(HERE, replace(HERE, system="1"), None, "Restored", id="a copy on another server"),
        pytest.param(HERE, replace(HERE, timeline=2), None, "Restored", id="a base backup, nothing remembered"),
        pytest.param(HERE, replace(HERE, timeline=2), VersionMark(90, STALE), "Restored", id="a mark too old to tell"),
        pytest.param(
            HERE,
            replace(HERE, timeline=2),
            VersionMark(99, FRESH),
            "Moved",
            id="a standby took over, nothing lost",
        ),
        pytest.param(
            HERE, replace(HERE, database=2), VersionMark(100, FRESH), "Moved", id="moved while all was stopped"
        ),
        pytest.param(HERE, Origin("", 0, 16384), None, "Same", id="the server no longer says where it is"),
    ],
)
def test_a_restore_is_distinguished_from_a_move(
    kept: Origin | None, found: Origin, seen: VersionMark | None, verdict: str
) -> None:
    finding = detect_restore(kept, found, version=100, written_at=NOW, seen=seen)

    assert finding.verdict == verdict
    assert bool(finding.why) == (verdict == "Restored")


@pytest.mark.parametrize(
    ("found", "seen", "verdict"),
    [
        pytest.param(replace(HERE, timeline=2), VersionMark(90, STALE), "Unknown", id="its own mark is too old"),
        pytest.param(replace(HERE, database=2), None, "Unknown", id="nothing remembered"),
        pytest.param(replace(HERE, timeline=2), VersionMark(99, FRESH), "Moved", id="a process that has just looked"),
        pytest.param(replace(HERE, timeline=2), VersionMark(101, STALE), "Restored", id="a version is missing"),
        pytest.param(HERE, None, "Same", id="the same database"),
    ],
)
def test_while_redis_is_away_only_what_is_certain_is_decided(
    found: Origin, seen: VersionMark | None, verdict: str
) -> None:
    assert detect_restore(HERE, found, version=100, written_at=NOW, seen=seen, redis_away=True).verdict == verdict


def test_a_raise_leaves_out_more_versions_than_can_have_been_written() -> None:
    assert restored.raised_version(7) == 100_001_000_000
    assert restored.raised_version(100_001_000_000) == 200_001_000_000


WRITING_TO_MEMBERS = {"execution", "unjoin", "impersonators"}


def test_only_observing_controllers_run_before_a_person_confirms() -> None:
    hold = RestoreHold(NOW, "a test")
    settings = restored.settings_during(hold, Settings(controllers=("*", "-probes")))

    running = {one.name for one in CONTROLLERS if settings.runs(one.name)}
    assert running == restored.OBSERVING - {"probes"}
    assert not running & {"execution", "evictions", "scheduler", "works", "unjoin", "application_failover", "garbage"}
    assert "until an administrator runs: manage.py restored --confirm" in hold.message


def test_after_the_confirmation_works_are_made_before_any_member_is_written_to() -> None:
    hold = RestoreHold(NOW, "a test", confirmed=True)
    settings = restored.settings_during(hold, Settings(controllers=("*", "-works")))

    running = {one.name for one in CONTROLLERS if settings.runs(one.name)}
    assert running == (restored.OBSERVING | restored.PREPARING) - {"works"}
    assert not restored.PREPARING & (WRITING_TO_MEMBERS | {"evictions", "application_failover", "garbage"})
    assert "until all Works are current" in hold.message

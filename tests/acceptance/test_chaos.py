"""A minute in which every process is killed again and again while clients write: nothing is lost or done twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.development.supervise import lifetime
from apps.development.supervise.run_folder import RunFolder
from tests.chaos import checks
from tests.chaos.ledger import Ledger, Write
from tests.chaos.run import run
from tests.chaos.trouble import VICTIMS
from tests.chaos.writers import MARK, POLICY

SECONDS, SEED = 60.0, 0  # every program is killed about three times, and with this seed copies are evicted


@pytest.mark.slow
def test_a_minute_of_killed_processes_and_failing_clusters_loses_and_repeats_nothing(tmp_path: Path) -> None:
    root = tmp_path / "chaos"
    try:
        report = run(root, seconds=SECONDS, seed=SEED)
    finally:
        lifetime.down(RunFolder(root))

    print("\n".join(report.lines))
    assert report.problems == []
    assert all(report.kills[name] for name in VICTIMS), report.lines
    assert report.acknowledged > SECONDS, report.lines


class Reporting:
    """A site that says what it is given: the checks can fail."""

    def __init__(self, logged: list[Any], *objects: dict[str, Any]) -> None:
        self.logged = logged
        self.objects = objects

    def sql(self, statement: str) -> list[Any]:
        return self.logged

    def items(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.objects if one["kind"] == kind]

    def on_members(self, name: str) -> dict[str, Any]:
        return {}


def config_map(mark: str) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "a", "annotations": {MARK: mark}}}


def write(mark: str, version: int, *, outcome: Any = "acknowledged", verb: Any = "apply") -> Write:
    return Write(id=mark, kind="ConfigMap", name="a", verb=verb, outcome=outcome, version=version)


@pytest.mark.parametrize(
    ("logged", "objects", "writes", "found"),
    [
        pytest.param([(1, "x"), (2, "y")], ["y"], [write("x", 1), write("y", 2)], "", id="all is there"),
        pytest.param([(1, "x")], ["x"], [write("x", 1), write("y", 2)], "y of ConfigMap a was", id="not logged"),
        pytest.param([(1, "x"), (2, "y")], ["x"], [write("x", 1), write("y", 2)], "is of write x", id="put back"),
        pytest.param([(1, "x")], [], [write("x", 1)], "is gone", id="gone"),
        pytest.param([(1, "x")], ["x"], [write("x", 1), write("z", 0, verb="delete")], "is there", id="not deleted"),
        pytest.param([(1, "x")], ["x"], [write("x", 1), write("y", 0, outcome="unknown")], "", id="unknown, not done"),
        pytest.param(
            [(1, "x"), (2, "y")], ["y"], [write("x", 1), write("y", 0, outcome="unknown")], "", id="unknown, done"
        ),
    ],
)
def test_a_lost_write_is_found(
    tmp_path: Path, logged: list[tuple[int, str]], objects: list[str], writes: list[Write], found: str
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for one in writes:
        ledger.write(one)
    ledger.close()
    site: Any = Reporting(logged, *map(config_map, objects))

    problems = checks.lost(site, ledger)

    assert bool(problems) == bool(found)
    assert found in "".join(problems)


def test_a_write_done_twice_is_found() -> None:
    site: Any = Reporting([(1, "x"), (2, "y"), (3, "x")])

    assert checks.twice(site) == ["twice: write x is logged 2 times"]


def test_evictions_beyond_the_rate_are_found() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)

    def found(*seconds: float) -> list[str]:
        site: Any = Reporting([(began + timedelta(seconds=one),) for one in seconds])
        return checks.beyond_the_rate(site)

    assert found(0, 2, 4, 6, 8) == [], "one in two seconds is the rate"
    assert any("5 evictions within 0.5 s" in one for one in found(0, 0.1, 0.2, 0.3, 0.5))


def test_a_deployment_on_two_members_or_on_none_is_found() -> None:
    deployment = {"kind": "Deployment", "metadata": {"name": "d", "annotations": {MARK: "x"}}, "spec": {}}
    copy = deployment | {"status": {"readyReplicas": 1}}
    objects = {("Deployment", "d"): deployment}

    def found(*members: str) -> list[str]:
        stored = checks.Stored(objects, [], {"d": dict.fromkeys(members, copy)})
        return checks.copies(stored)

    assert found("member1") == []
    assert found("member1", "member2") == ["copies: d runs on member1, member2, one is asked for"]
    assert found() == ["copies: d runs on no member, one is asked for"]
    assert checks.placed_nowhere(checks.Stored(objects, [], {})) == ["nowhere: Deployment d is placed on no cluster"]
    assert POLICY["spec"]["placement"]["spreadConstraints"][0]["maxGroups"] == 1

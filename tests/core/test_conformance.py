"""Every area of golden vectors in the repository agrees, or differs for a reason that is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import runner
from tests.conformance.areas import AREAS
from tests.conformance.compare import equivalent

FILES = runner.vector_files(runner.HERE)


@pytest.mark.parametrize("area", FILES)
def test_every_vector_agrees_or_differs_for_a_stated_reason(area: str) -> None:
    if area not in AREAS:
        pytest.skip("nothing runs this area yet")

    report = runner.check(area, FILES[area])

    assert not report.failures[: runner.SHOWN_FAILURES], f"{report}"
    assert report.passed > 0


def test_every_registered_area_has_vectors() -> None:
    assert set(AREAS) <= set(FILES)


def _run(vectors: Path, areas: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance"],
        capture_output=True,
        text=True,
        check=False,
        cwd=runner.HERE.parents[1],
        env={"CONFORMANCE_VECTORS": str(vectors), "CONFORMANCE_AREAS": areas},
    )


def _vector(canonical: str) -> str:
    expect = {"canonical": canonical, "format": "DecimalSI", "value": 1, "milliValue": 500, "sign": 1, "isZero": False}
    return json.dumps({"id": "case-1", "input": {"op": "parse", "s": "0.5"}, "expect": expect}) + "\n"


def test_a_wrong_expectation_fails_the_run_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("0.5"))

    done = _run(tmp_path, "quantity")

    assert done.returncode == 1
    assert done.stdout == "quantity: 0 passed, 1 failed, 0 differ\n"
    assert "case-1" in done.stderr
    assert "500m" in done.stderr


def test_a_right_expectation_passes(tmp_path: Path) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("500m"))

    done = _run(tmp_path, "quantity")

    assert (done.returncode, done.stdout) == (0, "quantity: 1 passed, 0 failed, 0 differ\n")


@pytest.mark.parametrize("area", ["names", "no_such_area"])
def test_a_named_area_without_file_or_runner_fails_the_run(tmp_path: Path, area: str) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("500m"))

    done = _run(tmp_path, area)

    assert done.returncode == 1
    assert area in done.stderr


# Of faults of the original that are not copied, only what it really gives is excused.
READ = {"canonical": "-43495133806592m", "format": "BinarySI", "sign": -1, "isZero": False}
EXCUSED = {
    "cut to 64 bits": ({"op": "parse", "s": "-40.508Gi"}, READ | {"value": -6601645658, "milliValue": -6601645659171}),
    "no suffix beyond E": (
        {"op": "mul", "a": "250000P", "n": 4},
        {"result": "1", "format": "DecimalSI", "value": 3875820019684212736, "milliValue": 0},
    ),
}
WRONG = {
    "not what is left of it": (
        {"op": "parse", "s": "-40.508Gi"},
        READ | {"value": -6601645659, "milliValue": -6601645659171},
    ),
    "no suffix": ({"op": "mul", "a": "3k", "n": 1}, {"result": "3", "format": "DecimalSI", "value": 3000}),
}


@pytest.mark.parametrize(("case", "excused"), [*((one, True) for one in EXCUSED), *((one, False) for one in WRONG)])
def test_a_fault_of_the_original_excuses_what_it_gives_and_nothing_else(
    tmp_path: Path, case: str, excused: bool
) -> None:
    given, expect = (EXCUSED | WRONG)[case]
    path = tmp_path / "quantity.jsonl"
    path.write_text(json.dumps({"id": case, "input": given, "expect": expect}))

    report = runner.check("quantity", path)

    assert (report.passed, report.reasons.total(), len(report.failures)) == (0, int(excused), int(not excused))


def test_absent_and_empty_are_one_when_documents_are_compared() -> None:
    assert equivalent({"a": 1, "b": [], "c": {"d": None}}, {"a": 1})
    assert equivalent([{"name": "x", "replicas": 0}], ({"name": "x"},))
    assert not equivalent({"a": 1}, {"a": 2})
    assert not equivalent([1], [1, 2])

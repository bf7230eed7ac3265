"""`make mutate`: the changes that it tries, and what it prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.mutate.changes import changes

PROJECT = Path(__file__).parents[2]
MODULE = """
LIMIT: int | float = 3 + 1


class Room:
    def fits(self, count: int, *, spare: int | None = None) -> bool:
        return count < LIMIT


def unused(text: str) -> bool:
    return text == "a"
"""
TESTS = """
from room import Room, unused

def test_a_small_count_fits():
    assert Room().fits(3)
    assert not Room().fits(9)

def test_the_text_of_a_letter():
    assert unused("a")
    assert not unused("b")
"""


def test_each_change_alters_a_line_and_neither_annotations_nor_signatures() -> None:
    found = [(change.function, change.number, change.after) for change in changes(MODULE)]

    assert found == [
        ("", 2, "LIMIT: int | float = 3 - 1"),
        ("Room.fits", 7, "return count != LIMIT"),
        ("Room.fits", 7, "return count <= LIMIT"),
        ("Room.fits", 7, "return count >= LIMIT"),
        ("unused", 11, 'return text != "a"'),
    ]


def test_a_text_is_compared_in_no_order() -> None:
    source = "def is_first(text: str, number: int) -> bool:\n    return text == names.FIRST and number == ONE\n"

    found = [change.after for change in changes(source, texts={"names.FIRST"})]

    assert found == [
        "return text != names.FIRST and number == ONE",
        "return text == names.FIRST and number != ONE",
        "return text == names.FIRST and number <= ONE",
        "return text == names.FIRST and number >= ONE",
        "return text == names.FIRST or number == ONE",
    ]


def test_an_exception_of_another_module_is_left_as_it_is() -> None:
    source = "try:\n    limit = 3 + 1\nexcept (json.JSONDecodeError, KeyError):\n    pass\n"
    other = "except (json.JSONDecodeError, CosmicRayTestingException):"

    assert {change.after for change in changes(source)} == {"limit = 3 - 1", other}


def test_options_of_classes_and_constant_defaults_of_their_fields_are_not_changed() -> None:
    stated = """
@dataclass(frozen=True)
class Door(Struct, frozen=True):
    is_open: bool = False
    width: int = 3 + 1
"""

    assert [(change.number, change.after) for change in changes(stated)] == [(5, "width: int = 3 - 1")]


def test_what_no_test_notices_is_printed_within_functions_and_outside_of_them(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(MODULE.replace("3 + 1", "len('four') * 1"))
    (tmp_path / "test_room.py").write_text(TESTS)
    command = [sys.executable, "-m", "tests.mutate.trials", "room.py", "--minutes", "5", "--tests", "test_room.py"]
    path = f"{tmp_path}:{PROJECT}"
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert [line.strip() for line in done.stdout.splitlines() if line.startswith(("room.py", "    +"))] == [
        "room.py:2:",
        "+LIMIT: int | float = len('four') / 1",
        "room.py:7: Room.fits",
        "+return count <= LIMIT",
        "room.py: 5 changes, 3 noticed, 2 not noticed, 0 without end, 0 judged before",
    ]
    assert (tmp_path / "room.py").read_text() == MODULE.replace("3 + 1", "len('four') * 1")

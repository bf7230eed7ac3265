"""The list of changes that need no test, which `make mutate` leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutate.changes import functions
from tests.mutate.judged import FOLDER, file_of, reasons

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.toml")), ids=lambda file: file.stem)
def test_each_judged_change_is_of_a_line_that_still_exists(file: Path) -> None:
    module = Path(*file.stem.split(".")).with_suffix(".py")
    source = (PROJECT / module).read_text()
    names = functions(source)
    lines = {(names.get(number, ""), line.strip()) for number, line in enumerate(source.splitlines(), 1)}
    judged = reasons(module)

    assert file == file_of(module)
    assert {(function, line) for function in judged for line in judged[function]} <= lines
    assert all(reason for of_lines in judged.values() for row in of_lines.values() for reason in row.values())

"""The servers of a test run are started when a test needs them, and only then."""

import pytest

from apps.development.supervise.lifetime import PROJECT
from tests.services import needed


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([], True),
        (["tests"], True),
        (["tests/core"], False),
        (["tests/core/", "tests/properties/test_quantity.py::test_x"], False),
        (["tests/core", "tests/api"], True),
        (["tests/core_of_something"], True),
        ([str(PROJECT / "tests" / "conformance")], False),
    ],
)
def test_pure_tests_start_nothing(asked: list[str], expected: bool) -> None:
    assert needed(asked, beside=PROJECT) is expected


def test_a_path_is_read_from_where_pytest_was_called() -> None:
    assert not needed(["core"], beside=PROJECT / "tests")
    assert needed(["core"], beside=PROJECT)

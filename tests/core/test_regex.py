"""Patterns users write match whole texts, as RE2 has it, and delay no request."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.regex import full_match
from controlplane.controllers.reads.propagated_kinds import is_propagated_namespace


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("kube-.*", "kube-system", True),
        ("kube-.*", "my-kube-system", False),
        ("a|b", "ab", False),
        ("team-[0-9]+", "team-12", True),
        ("team-[0-9]+", "team-12\n", False),
        ("(?i)DEV", "dev", True),
        ("", "", True),
    ],
)
def test_a_pattern_is_about_the_whole_text(pattern: str, text: str, *, matches: bool) -> None:
    assert full_match(pattern)(text) == matches


@pytest.mark.parametrize("pattern", ["[", "(?=a)", r"(a)\1", "a)|(b", "x{1000}{1000}{1000}"])
def test_what_cannot_be_matched_in_linear_time_is_no_pattern(pattern: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression of RE2"):
        full_match(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+b", "(.*)*x"])
def test_a_pattern_that_explodes_elsewhere_takes_no_time(pattern: str) -> None:
    assert is_propagated_namespace("a" * 62 + "c", (pattern,))

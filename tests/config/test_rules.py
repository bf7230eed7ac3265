"""docs/rules/: every rule has one section, names tests that exist, and every reference to a rule resolves."""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
RULES = PROJECT / "docs" / "rules"
NAME = r"[a-z]{2,}(?:-[a-z]{2,})+"
REFERENCE = re.compile(rf"(?<!ignore)\[({NAME})\](?!\()")  # [name]; not a Markdown link, not a type checker's code


def sections() -> dict[str, str]:
    """Return the text of each rule by its name."""
    found: dict[str, str] = {}
    for page in RULES.glob("*.md"):
        for part in re.split(r"^## ", page.read_text(), flags=re.M)[1:]:
            name, _, text = part.partition("\n")
            found[name.strip()] = text
    return found


def names() -> list[str]:
    return [
        line.removeprefix("## ").strip()
        for page in RULES.glob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("## ")
    ]


def prose(path: Path) -> str:
    """Return what a person reads in a file: Markdown whole, of Python the comments and strings."""
    text = path.read_text()
    if path.suffix != ".py":
        return text
    told = (tokenize.COMMENT, tokenize.STRING)
    return "\n".join(
        token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in told
    )


def test_a_rule_has_one_section_and_a_name_of_the_right_form() -> None:
    twice = [name for name, count in Counter(names()).items() if count > 1]

    assert not twice
    assert [name for name in names() if not re.fullmatch(NAME, name)] == []


@pytest.mark.parametrize("name", sorted(sections()))
def test_the_tests_a_rule_names_exist(name: str) -> None:
    named = re.findall(r"`(tests/[^`]+)`", sections()[name])

    assert named or name.startswith("graduation-"), "names no test"
    assert [path for path in named if not (PROJECT / path).exists()] == []


def test_every_reference_to_a_rule_resolves() -> None:
    known = set(sections())
    files = [
        *PROJECT.glob("docs/**/*.md"),
        *(path for top in ("controlplane", "apps") for path in (PROJECT / top).rglob("*.py")),
    ]

    unknown = {
        f"{path.relative_to(PROJECT)}: [{name}]"
        for path in files
        for name in REFERENCE.findall(prose(path))
        if name not in known
    }

    assert not unknown

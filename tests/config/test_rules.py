"""docs/rules/: every rule has one section, names tests that exist, and every reference to a rule resolves."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.config.prose import PROJECT, prose, relative, tracked

RULES = PROJECT / "docs" / "rules"
NAME = r"[a-z]{2,}(?:-[a-z]{2,})+"
REFERENCE = re.compile(rf"(?<!ignore)\[({NAME})\](?!\()")  # [name]; not a Markdown link, not a type checker's code
OLD_FORM = re.compile(
    r"\bD(?:[1-9]|1\d|2[0-3])\b|\bI(?:[1-9]|1[0-2])\b|\bsemantics,? \d|\bfaults? (?:row )?\d|\bS00[0-4]\b"
    r"|\bdecision 00\d\d\b"
)
GENERATED = {"docs/ownership.md", "docs/e2e.md"}
PAGES = [page for page in tracked("*.md") if relative(page) not in {"CHANGELOG.md", *GENERATED}]
THIS = "tests/config/test_rules.py"
NOT_COVERED = "Not covered"
NO_TESTS = ("graduation-",)  # sections that compare with documents


@cache
def sections() -> dict[str, str]:
    """Return the text of each rule by its name."""
    by_name: dict[str, str] = {}
    for page in sorted(RULES.rglob("*.md")):
        for part in re.split(r"^## ", page.read_text(), flags=re.M)[1:]:
            name, _, text = part.partition("\n")
            by_name[name.strip()] = text
    return by_name


def names() -> list[str]:
    return [
        line.removeprefix("## ").strip()
        for page in RULES.rglob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("## ")
    ]


def test_a_rule_has_one_section_and_a_name_of_the_right_form() -> None:
    twice = [name for name, count in Counter(names()).items() if count > 1]

    assert not twice
    assert [name for name in names() if not re.fullmatch(NAME, name)] == []


@pytest.mark.parametrize("name", sorted(sections()))
def test_the_tests_a_rule_names_exist(name: str) -> None:
    text = sections()[name]
    named = re.findall(r"`(tests/[^`]+)`", text)

    assert named or NOT_COVERED in text or name.startswith(NO_TESTS), "names no test"
    assert [path for path in named if not (PROJECT / path).exists()] == []


def test_every_reference_to_a_rule_resolves() -> None:
    known = set(sections())

    unknown = {
        f"{relative(path)}: [{name}]"
        for path in tracked("*.py", "*.md")
        for name in REFERENCE.findall(prose(path))
        if name not in known
    }

    assert not unknown


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_a_reference_to_a_rule_in_a_page_is_a_link_to_its_section(page: Path) -> None:
    """In Markdown, [name] is a link if the page defines it: `[name]: rules/taints.md#name`."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`|^ {4}.*?$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = dict(re.findall(rf"^\[({NAME})\]: (\S+)$", text, re.MULTILINE))
    used = set(re.findall(rf"(?<!\])\[({NAME})\](?![(:\[])", text)) & set(sections())

    assert used - set(links) == set()
    assert links == {name: f"{target_of(name, page)}#{name}" for name in links}


def target_of(name: str, page: Path) -> str:
    """Return the path from a page to the page of a rule; "": it is the same page."""
    home = next(one for one in RULES.rglob("*.md") if f"## {name}\n" in one.read_text())
    return "" if home == page else os.path.relpath(home, page.parent)


def test_no_file_refers_to_documents_that_are_not_part_of_the_project() -> None:
    old = {
        relative(path): sorted(set(OLD_FORM.findall(prose(path))))
        for path in tracked("*.py", "*.md")
        if relative(path) != THIS and OLD_FORM.search(prose(path))
    }

    assert old == {}, "write the name of a rule in docs/rules/ in square brackets"

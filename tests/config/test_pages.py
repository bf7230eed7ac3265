"""The files that documents name exist, and so do the pages and sections they link to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.config.prose import PROJECT, relative, tracked

PATH = re.compile(r"`((?:controlplane|apps|config|docs|tests|docker)/[\w./-]+?)(?:::\w+)?`")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
SECTION = re.compile(r"\]\((?!https?:|mailto:)([^)#]*)#([^)]+)\)")
PAGES = tracked("docs/*.md", "*.md")


def test_every_file_that_a_document_names_exists() -> None:
    missing = {
        f"{relative(page)}: {path}"
        for page in PAGES
        for path in PATH.findall(page.read_text())
        if not (PROJECT / path).exists() and not (PROJECT / f"{path}.py").exists()
    }

    assert not missing


def test_every_page_that_a_document_links_to_exists() -> None:
    missing = {
        f"{relative(page)}: {link}"
        for page in PAGES
        for link in LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    }

    assert not missing


def test_every_section_that_a_document_links_to_exists() -> None:
    missing = {
        f"{relative(page)}: {file}#{anchor}"
        for page in PAGES
        for file, anchor in SECTION.findall(page.read_text())
        if anchor not in anchors((page.parent / file).resolve() if file else page)
    }

    assert not missing


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)

"""The files that documents name exist, and so do the pages they link to."""

from __future__ import annotations

import re

from tests.config.prose import PROJECT, relative, tracked

PATH = re.compile(r"`((?:controlplane|apps|config|docs|tests|docker)/[\w./-]+?)(?:::\w+)?`")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)(?:#[^)]*)?\)")
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

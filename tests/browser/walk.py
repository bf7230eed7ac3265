"""Walks through pages of the console and asks of each what holds in every state of the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.browser.conftest import Console
from tests.browser.test_console import SIZES, faults, sized

MAIN: Final = ("/", "/clusters", "/queue", "/records", "/what-if", "/readiness", "/drills")


WIDE: Final = """[...document.querySelectorAll("body *")]
  .filter((one) => one.getBoundingClientRect().right > innerWidth && !one.closest(".scroll, pre, nav"))
  .map((one) => one.outerHTML.slice(0, 100))"""  # elements that do not fit


def walk(console: Console, paths: Sequence[str], *, axe: bool = False, status: int = 200) -> None:
    """Open each page wide and dark, and narrow and light: it is whole, fits, and reports no error.

    `status`: of each answer. Chromium itself reports a page that it was refused.
    """
    for path in paths:
        answer = console.page.goto(f"{console.url}{path}")
        assert answer is not None
        assert answer.status == status, (path, answer.status)
        for (width, height), scheme in zip(SIZES, ("dark", "light"), strict=True):
            with sized(console.page, width, height, scheme):
                page = console.page
                assert page.locator("main h1").inner_text(), path
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (
                    path,
                    width,
                    page.evaluate(WIDE),
                )
                found = faults(page) if axe else []
                assert found == [], (path, width, found)
    assert [error for error in console.errors if f"status of {status} " not in error] == []

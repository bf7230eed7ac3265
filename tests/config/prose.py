"""The project's files, and what a person reads in them."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[2]
# A comment, or a string of Python with its prefix. The module tokenize finds the same, and takes ten times as long.
READ = re.compile(
    r"""#[^\n]*|[rRbBfFuU]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|"""
    r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""",
    re.DOTALL,
)


def tracked(*patterns: str) -> list[Path]:
    """Return the project's files that match a pattern of git, without files that are ignored or deleted."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for line in sorted(set(listed.splitlines())) if (path := PROJECT / line).is_file()]


def relative(path: Path) -> str:
    return str(path.relative_to(PROJECT))


@cache
def prose(path: Path) -> str:
    """Return what a person reads in a file: of Python the comments and strings, of anything else all of it."""
    text = path.read_text(errors="replace")
    return "\n".join(READ.findall(text)) if path.suffix == ".py" else text

"""README says what happens: its timeline is what `make demo` prints, its commands and links exist."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SECONDS = re.compile(r"^\s*[0-9.]+  ")


def _fenced() -> list[str]:
    return [SECONDS.sub("", line) for line in README.split("```")[1].strip().splitlines()]


@pytest.mark.slow
def test_the_timeline_is_what_the_demo_prints() -> None:
    ours = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}

    done = subprocess.run(
        ["make", "-s", "demo"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900, check=False
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    printed = [SECONDS.sub("", line) for line in done.stdout.splitlines()]
    missing = [line for line in _fenced() if line not in printed]
    assert not missing, f"README says what the demo does not print: {missing}"


def test_every_make_target_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = set(re.findall(r"^    make ([a-z-]+)|`make ([a-z-]+)`", README, re.MULTILINE))

    assert {one or other for one, other in named} <= targets


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)\)", README))
def test_every_file_readme_links_to_exists(path: str) -> None:
    assert (ROOT / path).exists()

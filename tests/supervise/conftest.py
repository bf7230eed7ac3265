"""The supervisor as a person uses it: a command line, real servers, a folder of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from apps.development.supervise import lifetime, records
from apps.development.supervise.private import MARK
from apps.development.supervise.run_folder import RunFolder

ELSEWHERE = (
    *("DATABASE_URL", "REDIS_URL", "LIFEBOAT_POSTGRES_BIN", "DJANGO_SETTINGS_MODULE"),
    records.TOKEN_VARIABLE,
)


def bare_environment(**more: str) -> dict[str, str]:
    """Return our environment without anything that names servers."""
    return {name: value for name, value in os.environ.items() if name not in ELSEWHERE} | more


class CommandLine:
    """`python -m apps.development.supervise <verb> --dir <folder> …`"""

    def __init__(self, folder: Path) -> None:
        self.home = RunFolder(folder)

    def __call__(self, verb: str, *options: str, ok: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.argv(verb, *options),
            cwd=lifetime.PROJECT,
            env=bare_environment(**more),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode == 0) is ok, done.stdout + done.stderr
        return done

    def argv(self, verb: str, *options: str) -> list[str]:
        return [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(self.home.root), *options]

    def environment(self) -> dict[str, str]:
        """Return what is running, as it was published."""
        facts = self.home.published()
        assert facts is not None
        return dict(facts["environment"])

    def record(self, name: str) -> records.Record:
        return next(record for record in records.read_records(self.home.run) if record.name == name)


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line on a fresh folder; what a test left running is ended."""
    command = CommandLine(tmp_path / "lifeboat")
    yield command
    lifetime.down(command.home)
    if (command.home.root / MARK).exists():
        command.home.remove()


def eventually(condition: Callable[[], object], *, within: float = 60.0) -> None:
    """Wait until a condition holds; fail where it does not within so many seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.02)

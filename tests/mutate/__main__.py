"""`make mutate ONLY=controlplane/eviction/queue.py`: change modules in small ways, print what no test notices.

The project is copied to a temporary folder, and changed there. By default the tests are all pure ones; `--tests` names
others. A surviving change is a missing test, or code that has no effect.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
TESTS = ("tests/core", "tests/properties")


def copied(target: Path) -> None:
    """Copy every file git knows, or would add, to a folder."""
    known = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in known:
        if (PROJECT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, target / name)


def main() -> int:
    """Return 0 if every change was noticed, 1 if some survived, 2 if no test imports the module."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("modules", type=Path, nargs="+", help="files or folders, relative to the project")
    parser.add_argument("--tests", nargs="*", help="test files or folders; default: all pure tests")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new change is tried after this time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        copied(Path(name))
        modules = map(str, given.modules)
        command = [sys.executable, "-m", "tests.mutate.trials", *modules, "--minutes", str(given.minutes)]
        return subprocess.run([*command, "--tests", *(given.tests or TESTS)], cwd=name, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

"""`make mutate ONLY=controlplane/eviction/queue.py`: change a module in small ways, print what no test notices.

The project is copied to a temporary folder and changed there by cosmic-ray. By default the tests are those that import
the module; `--tests` names others. A surviving change is a missing test, or code that has no effect.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 300.0  # a change that makes the tests run longer than this counts as noticed
CONFIG = """[{tool}]
module-path = "{module}"
timeout = {timeout}
excluded-modules = []
test-command = "{command}"
[{tool}.distributor]
name = "local"
[{tool}.filters.operators-filter]
exclude-operators = ["core/NumberReplacer", "core/ReplaceBinaryOperator_(BitOr|LShift)_.*", "core/RemoveDecorator"]
"""


def tests_of(module: Path) -> list[str]:
    """Return the test files that import a module, whole or a name of it."""
    dotted = ".".join(module.with_suffix("").parts).removesuffix(".__init__")
    pure = [path for folder in ("core", "properties") for path in (PROJECT / "tests" / folder).glob("test_*.py")]
    return sorted(str(path.relative_to(PROJECT)) for path in pure if dotted in imported(path))


def imported(path: Path) -> set[str]:
    """Return the dotted names a file imports: modules, and what it takes from modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


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


def run(folder: Path, *words: str, seconds: float | None = None) -> str:
    """Run a program of cosmic-ray in the copy and return its output.

    Raises CalledProcessError if it fails, TimeoutExpired after so many seconds.
    """
    command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=seconds)
    return done.stdout


def changes(report: str) -> list[str]:
    """Return the changed lines of a report, with the place of each."""
    found: list[str] = []
    for line in report.splitlines():
        if place := re.match(r"@@ -(\d+)", line):
            found.append(f"near line {int(place[1]) + 3}:")
        elif line.startswith(("-", "+")) and not line.startswith(("---", "+++")):
            found.append(f"    {line}")
    return found


def main() -> int:
    """Return 0 if every change was noticed, 1 if some survived, 2 if no test imports the module."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("module", type=Path, help="file of the module, relative to the project")
    parser.add_argument("--tests", nargs="*", help="test files; default: pure tests that import the module")
    parser.add_argument("--minutes", type=float, default=60.0, help="no new change is tried after this time")
    given = parser.parse_args()
    tests = given.tests or tests_of(given.module)
    if not tests or not (PROJECT / given.module).is_file():
        print(f"{given.module}: {'no test imports it; name tests with TESTS=' if not tests else 'no such file'}")
        return 2
    print(f"{given.module}: {len(tests)} test files: {' '.join(tests)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutate-") as name:
        folder = Path(name)
        copied(folder)
        command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider {' '.join(tests)}"
        (folder / "mutate.toml").write_text(
            CONFIG.format(tool="cosmic-ray", module=given.module, timeout=TIMEOUT_SECONDS, command=command)
        )
        run(folder, "cosmic-ray", "init", "mutate.toml", "session.sqlite")
        run(folder, "cr-filter-operators", "session.sqlite", "mutate.toml")
        run(folder, "cosmic-ray", "baseline", "mutate.toml")
        try:
            run(folder, "cosmic-ray", "exec", "mutate.toml", "session.sqlite", seconds=given.minutes * 60)
        except subprocess.TimeoutExpired:
            print(f"ended after {given.minutes:g} minutes: later changes were not tried")
        survivors = changes(run(folder, "cr-report", "session.sqlite", "--surviving-only", "--show-diff"))
        totals = run(folder, "cr-report", "session.sqlite").splitlines()[-3:]
    print("\n".join([*survivors, "", *totals]))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run tests against changes of modules, in a copy of the project: `python -m tests.mutate.trials` of `make mutate`.

The tests are collected once. For each change a process is forked. It exchanges the code of the changed function, and
runs only the tests that call this function. A change outside of functions is tried by a new Python.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType

import pytest

from tests.mutate.changes import Change, changes
from tests.mutate.judged import is_judged, reasons

PATIENCE = 10.0  # times the processor time that the tests needed without a change
LEAST_PATIENCE = 30.0  # seconds
FUNCTION = 0x1  # CO_OPTIMIZED: code of functions has this flag, code of modules and classes has not
NOT_EXCHANGED = "not exchanged"
OUTCOMES = NOTICED, ALIVE, ENDLESS, JUDGED = "noticed", "not noticed", "without end", "judged before"

Place = tuple[str, str, int]  # file, qualified name and first line of a function: the same before and after a change


def nested(code: CodeType) -> dict[Place, CodeType]:
    """Return a code and all code in it, outer code first."""
    found = {place(code): code}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= nested(const)
    return found


def place(code: CodeType) -> Place:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def live(modules: Iterable[Path]) -> list[FunctionType]:
    """Return the functions of modules, also those of classes and behind decorators."""
    files = {str(module.resolve()) for module in modules}
    return [value for value in gc.get_objects() if type(value) is FunctionType and value.__code__.co_filename in files]


def texts(module: Path) -> set[str]:
    """Return the names of texts in a module that tests have imported: `NAME`, and `other.NAME` of what it imports."""
    found: set[str] = set()
    for each in list(sys.modules.values()):
        if getattr(each, "__file__", None) == str(module.resolve()):
            named = [(name, value) for name, value in vars(each).items() if isinstance(value, ModuleType)]
            found |= _texts_of(each)
            found |= {f"{name}.{text}" for name, other in named for text in _texts_of(other)}
    return found


def _texts_of(module: ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if isinstance(value, str)}


def exchange(functions: Iterable[FunctionType], new: dict[Place, CodeType]) -> bool:
    """Give functions their changed code. False: none of them has it."""
    done = False
    for function in functions:
        code = new.get(place(function.__code__), function.__code__)
        if code != function.__code__:
            function.__code__, done = code, True
    return done


def forked(work: Callable[[], str], *, seconds: float) -> str:
    """Return what a function returns in a forked process. ENDLESS: it used the processor for longer."""
    with tempfile.NamedTemporaryFile() as file:
        if (pid := os.fork()) == 0:
            nothing = os.open(os.devnull, os.O_RDWR)
            for output in (1, 2):
                os.dup2(nothing, output)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            try:
                Path(file.name).write_text(work())
            finally:
                os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF:
            return ENDLESS
        return Path(file.name).read_text() or NOTICED  # the process ended otherwise


class Trials:
    """A plugin of pytest, which takes the place of its loop over the tests."""

    def __init__(self, modules: Iterable[Path], *, until: float) -> None:
        self.modules = list(modules)
        self.until = until
        self.alive = 0
        self.functions: list[FunctionType] = []
        self.items: dict[str, pytest.Item] = {}
        self.seconds: dict[str, float] = {}  # of each test
        self.tests: dict[Place, set[str]] = {}  # which tests call a function

    def pytest_sessionstart(self) -> None:
        """Let Hypothesis not look for the smallest example of a failure."""
        from hypothesis import Phase  # here: pytest prepares it first
        from hypothesis import settings as hypothesis_settings

        quick = hypothesis_settings(hypothesis_settings.default, phases=(Phase.explicit, Phase.generate))
        hypothesis_settings.register_profile("mutate", quick)
        hypothesis_settings.load_profile("mutate")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        self._open_database(session)
        self.functions = live(self.modules)
        gc.collect()
        gc.freeze()  # forked processes share this memory
        found = json.loads(forked(self._unchanged, seconds=3600))
        self.seconds = found["seconds"]
        self.tests = {tuple(function): set(tests) for function, tests in found["tests"]}
        print(f"{len(self.items)} tests, {sum(self.seconds.values()):.0f} s", flush=True)
        if found["failed"]:
            raise pytest.UsageError(f"fail without a change: {' '.join(found['failed'])}")
        for module in self.modules:
            self._try_module(module)
        return True

    def _open_database(self, session: pytest.Session) -> None:
        """Make the test database, if a test uses it, before processes are forked. They connect to it themselves."""
        for item in session.items:
            if "django_db_setup" in getattr(item, "fixturenames", ()):
                from django.db import connections  # here: pure tests run without Django

                passes([item])
                for connection in connections.all():
                    connection.close()
                    connection.close_pool()  # type: ignore[attr-defined]
                return

    def _unchanged(self) -> str:
        """Run all tests; return which failed, the seconds of each, and which of them call each function."""
        files = {str(module.resolve()) for module in self.modules}
        calls: set[Place] = set()
        tests: dict[Place, list[str]] = {}
        seconds, failed = {}, []

        def called(frame: FrameType, event: str, arg: object) -> None:
            if frame.f_code.co_filename in files:
                calls.add(place(frame.f_code))

        for name, item in self.items.items():
            calls.clear()
            threading.settrace(called)
            sys.settrace(called)
            begun = time.process_time()
            if not passes([item]):
                failed.append(name)
            seconds[name] = time.process_time() - begun
            sys.settrace(None)
            for function in calls:
                tests.setdefault(function, []).append(name)
        return json.dumps({"seconds": seconds, "failed": failed, "tests": list(tests.items())})

    def _try_module(self, module: Path) -> None:
        judged = reasons(module)
        counts: Counter[str] = Counter()
        for change in changes(module.read_text(), texts(module)):
            if time.monotonic() > self.until:
                print(f"{module}: time is up; later changes were not tried")
                break
            outcome = JUDGED if is_judged(change, judged) else self._outcome(module, change)
            counts[outcome] += 1
            if outcome == ALIVE:
                where = f"{module}:{change.number}: {change.function}"
                print(f"{where}\n    -{change.before}\n    +{change.after}", flush=True)
        self.alive += counts[ALIVE]
        print(
            f"{module}: {counts.total()} changes, {', '.join(f'{counts[name]} {name}' for name in OUTCOMES)}\n",
            flush=True,
        )

    def _outcome(self, module: Path, change: Change) -> str:
        """Return what the tests make of a change."""
        path = str(module.resolve())
        old = nested(compile(module.read_text(), path, "exec"))
        new = nested(compile(change.source, path, "exec"))
        *_, changed = (function for function in new if new[function] != old.get(function))
        called = self._in_order(self.tests.get(changed, set()), module)
        patience = LEAST_PATIENCE + PATIENCE * sum(map(self.seconds.__getitem__, called))

        def run() -> str:
            if not exchange(self.functions, new):
                return NOT_EXCHANGED
            return ALIVE if passes([self.items[name] for name in called]) else NOTICED

        outcome = forked(run, seconds=patience) if new[changed].co_flags & FUNCTION else NOT_EXCHANGED
        return self._afresh(module, change) if outcome == NOT_EXCHANGED else outcome

    def _in_order(self, tests: set[str], module: Path) -> list[str]:
        """Return tests in the order in which they run: the files of a module's own tests first, then the fast ones."""
        seconds: dict[str, float] = {}
        for name in tests:
            file = name.partition("::")[0]
            seconds[file] = seconds.get(file, 0.0) + self.seconds[name]
        dotted = ".".join(module.with_suffix("").parts)
        own = {file for file in seconds if dotted in imported(Path(file))}
        order = {
            file: place for place, file in enumerate(sorted(seconds, key=lambda file: (file not in own, seconds[file])))
        }
        return sorted(tests, key=lambda name: order[name.partition("::")[0]])

    def _afresh(self, module: Path, change: Change) -> str:
        """Try a change in a new Python, with all tests that call any function of the module."""
        path, original = module.resolve(), module.read_text()
        tests = self._in_order(
            {name for (file, *_), names in self.tests.items() if file == str(path) for name in names}, module
        )
        try:
            module.write_text(change.source)
            with tempfile.NamedTemporaryFile("w") as names:
                names.write("\n".join(tests))
                names.flush()
                # Without -B two changes of one size in one second would share their bytecode.
                command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"@{names.name}"]
                done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
                return NOTICED if done.returncode else ALIVE
        finally:
            module.write_text(original)


def passes(items: Sequence[pytest.Item]) -> bool:
    """Test whether tests pass. The fixtures of the session are kept."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following or item.session)
        if item.session.testsfailed:
            item.session.testsfailed = 0
            return False
    return True


def imported(path: Path) -> set[str]:
    """Return the dotted names a file imports: modules, and what it takes from modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def main() -> int:
    """Return 0 if every change was noticed, 1 if not, 2 if tests fail without a change."""
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", type=Path, nargs="+")
    parser.add_argument("--tests", nargs="+", required=True)
    parser.add_argument("--minutes", type=float, required=True)
    given = parser.parse_args()
    modules = [file for path in given.modules for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    trials = Trials(modules, until=time.monotonic() + 60 * given.minutes)
    options = ["-s", "-qq", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *given.tests], plugins=[trials])
    return 2 if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(trials.alive > 0)


if __name__ == "__main__":
    sys.exit(main())

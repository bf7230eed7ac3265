"""pytest plugin: a real PostgreSQL and a real Redis for the tests that need them, and a word on what was skipped.

It runs before Django's settings are read. Taken are DATABASE_URL and REDIS_URL, else servers of our own are started in
a temporary folder and ended with the run. Folders whose tests are pure start nothing and do not even load Django.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest

from apps.development.supervise import lifetime
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.run_folder import RunFolder

TESTS = Path(__file__).parent
# Pure, or starting servers of their own.
PURE = ("core", "properties", "simulation", "conformance", "config", "supervise")
WITHOUT_SERVICES = tuple(TESTS / name for name in PURE)
VARIABLES = ("DATABASE_URL", "REDIS_URL")


class OwnServices:
    """The servers this run started."""

    def __init__(self, *, throwaway: bool = True) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="lifeboat-tests-")
        self.home = RunFolder(Path(self.folder.name) / "services")
        arguments = ["services", "--foreground", "--with-parent", "--dir", str(self.home.root)]
        if throwaway:  # a crash costs a run of tests; benches measure what users get
            arguments.append("--throwaway")
        said = list[str]()
        try:
            self.process, facts = lifetime.detach(self.home, arguments, within=300.0, say=said.append)
        except SuperviseError as error:  # its log goes with the folder
            raise SuperviseError("\n".join([str(error), *said])) from error
        self.before = {name: os.environ.get(name) for name in VARIABLES}
        os.environ.update(facts["environment"])  # inherited by the processes of pytest-xdist

    def stop(self) -> None:
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
        lifetime.down(self.home)
        self.process.wait(300)
        self.home.remove()
        self.folder.cleanup()


_own: OwnServices | None = None  # None: not started by this process


def needed(paths: Iterable[str], *, beside: Path) -> bool:
    """Return whether anything but pure tests is asked for; no path at all asks for everything."""
    asked = [(beside / path.split("::", 1)[0]).resolve() for path in paths]
    return not asked or any(not any(path.is_relative_to(pure) for pure in WITHOUT_SERVICES) for path in asked)


@pytest.hookimpl(wrapper=True)  # around pytest-django's own, which reads the settings
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    global _own
    options = early_config.known_args_namespace
    if needed(options.file_or_dir, beside=early_config.invocation_params.dir):
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
        os.environ.setdefault("LIFEBOAT_SECRET_KEY", "only-for-tests")
        os.environ.setdefault("LIFEBOAT_ENCRYPTION_KEYS", "b25seS1mb3ItdGVzdHMtLW9ubHktZm9yLXRlc3RzLS0")
        os.environ.setdefault("LIFEBOAT_DEVELOPMENT", "true")
        os.environ.setdefault("LIFEBOAT_MEMBERS_ALLOWED_ADDRESSES", "127.0.0.0/8")  # simulated members
        is_worker = "PYTEST_XDIST_WORKER" in os.environ
        only_listing = options.help or options.version or options.collectonly
        if not is_worker and not only_listing and not all(os.environ.get(name) for name in VARIABLES):
            try:
                _own = OwnServices()
            except SuperviseError as error:
                raise pytest.UsageError(f"tests need PostgreSQL and Redis: {error}") from error
        if is_worker:
            os.environ["REDIS_URL"] = redis_of(os.environ["REDIS_URL"], os.environ["PYTEST_XDIST_WORKER"])
    return (yield)


def redis_of(url: str, worker: str) -> str:
    """Return the URL of the Redis database of a worker of pytest-xdist: tests of one empty it while others run."""
    return f"{url.rsplit('/', 1)[0]}/{int(worker.removeprefix('gw')) % 8}"


def pytest_unconfigure() -> None:
    global _own
    if _own is not None:
        _own.stop()
        _own = None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped, and what is missing for them."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped if report.longrepr)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped {count}: {reason}", yellow=True)

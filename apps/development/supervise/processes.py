"""Child processes: each is started in a session of its own, restarted after a crash, and ended in reverse order."""

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from apps.development.supervise import records
from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.fork_server import Forked, ForkServer, reap_strangers
from apps.development.supervise.run_folder import RunFolder

PR_SET_PDEATHSIG = 1
SHORTEST_BACK_OFF = 0.5  # seconds before the first restart; doubled for each further crash
LONGEST_BACK_OFF = 30.0
STABLE_SECONDS = 10.0  # after so long a crash counts as the first one again


def always_ready() -> bool:
    return True


@dataclass(frozen=True)
class Program:
    """How a process is started and stopped."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)  # in addition to the environment of the supervisor
    ready: Callable[[], bool] = always_ready
    ready_within: float = 60.0  # seconds
    stop_signal: int = signal.SIGTERM
    grace: float = 10.0  # seconds between stop_signal and SIGKILL
    stable_after: float = STABLE_SECONDS
    group: bool = True  # True: the stop signal goes to the whole process group
    uid: int | None = None  # None: the user of the supervisor
    gid: int | None = None
    cwd: Path | None = None
    shared: bool = False  # True: forked from the fork server if there is one, with its environment


@dataclass
class _Child:
    """A program that was started."""

    program: Program
    process: subprocess.Popen[bytes] | Forked
    record: records.Record
    since: float  # monotonic seconds
    crashes: int = 0
    restart_at: float | None = None  # None: running


class Supervisor:
    """Starts programs and keeps them running until `stopping` is set."""

    def __init__(self, home: RunFolder, *, say: Callable[[str], None] = print) -> None:
        self._home = home
        self._say = say
        self._children: dict[str, _Child] = {}
        self._token = secrets.token_hex(8)
        self._parent = os.getppid()
        self._fork_server: ForkServer | None = None  # None: every program is started with exec
        self.stopping = False

    def preload(self, environment: Mapping[str, str], *, cwd: Path) -> None:
        """Start a fork server for programs that are `shared`. Where processes cannot share, nothing happens."""
        if records.LINUX:
            named = {**environment, records.TOKEN_VARIABLE: self._token}
            self._fork_server = ForkServer(named, log=self._home.log("preloaded"), cwd=cwd)

    def end_stale(self) -> list[str]:
        """End processes that an earlier supervisor of this folder left. Returns their names."""
        ended = []
        for record in reversed(records.read_records(self._home.run)):
            if records.end(record, grace=5.0):
                ended.append(record.name)
            record.erase(self._home.run)
        return ended

    def end_preloading(self) -> None:
        """End the fork server. A program that crashes from now on is started again with exec.

        The fork server would keep a copy of each page that all its children have written.
        """
        if self._fork_server is not None:
            self._fork_server.stop()
            self._fork_server = None

    def start(self, *programs: Program) -> None:
        """Start programs together and wait until all are ready.

        Raises SuperviseError with the end of its log if a program ends or is not ready in time.
        """
        self.launch(*programs)
        self.await_ready(*(program.name for program in programs))

    def launch(self, *programs: Program) -> None:
        """Start programs together, without waiting until they are ready."""
        for program in programs:
            self._children[program.name] = self._spawn(program)

    def await_ready(self, *names: str) -> None:
        """Wait until launched programs are ready. Raises SuperviseError as `start` does."""
        for name in names:
            self._await_ready(self._children[name])

    def await_end(self, name: str) -> None:
        """Wait until a launched program has ended with status 0, and forget it.

        Raises SuperviseError with the end of its log if it fails or does not end in time.
        """
        child = self._children[name]
        self._await_ready(child, replace(child.program, ready=lambda: child.process.poll() == 0))
        child.record.erase(self._home.run)
        del self._children[name]

    def pid(self, name: str) -> int:
        return self._children[name].process.pid

    def stop_on_signals(self) -> None:
        """Make SIGTERM, SIGINT and SIGHUP end the run in order."""

        def stop(signum: int, frame: object) -> None:
            self.stopping = True

        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, stop)

    def watch(self, *, with_parent: bool = False) -> None:
        """Restart crashed programs, with back-off, until `stopping` (`with_parent`: or until the parent has ended)."""
        while not self.stopping:
            if with_parent and os.getppid() != self._parent:
                return
            for child in list(self._children.values()):
                self._restart_if_crashed(child)
            if self._fork_server is not None:
                reap_strangers(
                    frozenset((self._fork_server.pid, *(one.process.pid for one in self._children.values())))
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """End all programs, the last one first."""
        for child in reversed(list(self._children.values())):
            if child.restart_at is None:
                send_stop = child.process.poll() is None
                if send_stop:
                    records.send(child.process.pid, child.program.stop_signal, group=child.program.group)
                self._await_end(child)
            records.end(child.record, grace=0.0)  # processes that the leader of the session left
            child.record.erase(self._home.run)
        self._children.clear()
        self.end_preloading()

    def _spawn(self, program: Program) -> _Child:
        process = self._fork(program) or self._execute(program)
        record = records.Record(
            name=program.name,
            pid=process.pid,
            started=records.started(process.pid) or "",
            token=self._token,
            stop_signal=program.stop_signal,
            group=program.group,
        )
        record.write(self._home.run)
        return _Child(program, process, record, since=time.monotonic())

    def _fork(self, program: Program) -> Forked | None:
        """Start a program by the fork server. None: it has none, or cannot give the program its environment."""
        server = self._fork_server
        if (
            server is None
            or not program.shared
            or any(server.environment.get(name) != value for name, value in program.env.items())
        ):
            return None
        forked = server.fork(program.argv, log=self._home.log(program.name), stop_signal=program.stop_signal)
        if forked is None:
            self._say(f"processes do not share their code any more (log: {self._home.logs / 'preloaded'}.log)")
            self._fork_server = None
        return forked

    def _execute(self, program: Program) -> subprocess.Popen[bytes]:
        log = self._home.log(program.name).open("ab")
        environment = {**os.environ, **program.env, records.TOKEN_VARIABLE: self._token}
        try:
            return subprocess.Popen(
                list(program.argv),
                env=environment,
                cwd=program.cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that Ctrl-C reaches only the supervisor, which ends them in order
                preexec_fn=_die_with(os.getpid(), program.stop_signal),
                user=program.uid,
                group=program.gid,
                extra_groups=None if program.uid is None else (),
            )
        except OSError as error:
            raise SuperviseError(f"{program.name}: cannot start {program.argv[0]}: {error}") from error
        finally:
            log.close()

    def _await_ready(self, child: _Child, program: Program | None = None) -> None:
        program = program or child.program
        deadline = child.since + program.ready_within
        while not program.ready():
            if self.stopping:
                raise SuperviseError("stopped before everything was up")
            if child.process.poll() is not None:
                status = child.process.returncode
                raise SuperviseError(f"{program.name} ended with status {status}\n{self._tail(program)}")
            if time.monotonic() > deadline:
                limit = f"{program.ready_within:g} s"
                raise SuperviseError(f"{program.name} is not ready after {limit}\n{self._tail(program)}")
            time.sleep(0.02)

    def _restart_if_crashed(self, child: _Child) -> None:
        now = time.monotonic()
        if child.restart_at is None:
            if child.process.poll() is None:
                return
            records.end(child.record, grace=0.0)  # its children, before their pids can be used again
            child.crashes = 1 if now - child.since > child.program.stable_after else child.crashes + 1
            pause = min(SHORTEST_BACK_OFF * 2 ** (child.crashes - 1), LONGEST_BACK_OFF)
            child.restart_at = now + pause
            self._say(
                f"{child.program.name} ended with status {child.process.returncode}; starting it again in {pause:g} s "
                f"(log: {self._home.logs / child.program.name}.log)"
            )
        elif now >= child.restart_at:
            try:
                fresh = self._spawn(child.program)
            except SuperviseError as error:
                self._say(str(error))
                child.restart_at = now + LONGEST_BACK_OFF
                return
            fresh.crashes = child.crashes
            self._children[child.program.name] = fresh

    def _await_end(self, child: _Child) -> None:
        try:
            child.process.wait(child.program.grace)
        except subprocess.TimeoutExpired:
            records.send(child.process.pid, signal.SIGKILL, group=child.program.group)
            child.process.wait()

    def _tail(self, program: Program, lines: int = 15) -> str:
        path = self._home.logs / f"{program.name}.log"
        text = path.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([f"the end of {path}:", *(f"  {line}" for line in text)])


def _die_with(parent: int, signum: int) -> Callable[[], None] | None:
    """Return a function that a child calls before exec, so that it gets `signum` if the supervisor is killed."""
    if not sys.platform.startswith("linux"):
        return None  # not possible there; the next start ends what was left, by its record
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
        if os.getppid() != parent:  # the supervisor ended between fork and this line
            os._exit(1)

    return ask

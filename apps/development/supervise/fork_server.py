"""The supervisor's side of the fork server: starts it, and asks it for processes.

The fork server (`apps.development.preloaded`) has imported the code of all processes once. Its children share
that memory with it and with each other, and start within milliseconds. They become children of the supervisor, because
the supervisor is a subreaper: the process that the kernel makes the parent of orphans below it.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from apps.development.supervise.errors import SuperviseError

PR_SET_CHILD_SUBREAPER = 36
LONGEST_MESSAGE = 65536  # bytes
IMPORTED_WITHIN = 60.0  # seconds, on a slow machine
# Room for the command lines of the children, which overwrite that of the fork server.
PADDING = "-" * 240


class Forked:
    """A child of this process that the fork server started. It has the part of Popen's interface that is used."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status as Popen does. None: the process runs."""
        return self._waited(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait until the process has ended. Raises TimeoutExpired after `timeout` seconds; None: wait for ever."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._waited(0 if deadline is None else os.WNOHANG) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(0.01)
        return self.returncode

    def _waited(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class ForkServer:
    """A process that forks others. Only on Linux: elsewhere a process that has imported much must not fork."""

    def __init__(self, environment: Mapping[str, str], *, log: Path, cwd: Path) -> None:
        """Start the server. It imports the code with `environment`, which all its children have."""
        if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise SuperviseError("the kernel refuses to make this process the parent of orphans below it")
        self.environment = dict(environment)
        self._ready = False
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other, log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "apps.development.preloaded", str(os.getpid()), PADDING],
                env={**os.environ, **environment},
                cwd=cwd,
                stdin=other.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fork(self, argv: Sequence[str], *, log: Path, stop_signal: int) -> Forked | None:
        """Start a process that runs the Python program `argv`, e.g. ["python", "manage.py", "members"].

        stop_signal: what the process receives if the supervisor is killed.
        None: the server has ended, or has not answered in time, and ends.
        """
        try:
            self._await_imports()
            request = {"argv": list(argv), "log": str(log), "stop_signal": int(stop_signal)}
            self._socket.send(json.dumps(request).encode())
            answer = self._socket.recv(LONGEST_MESSAGE)
        except OSError:  # also a time-out
            answer = b""
        if not answer:
            self.stop()
            return None
        return Forked(int(answer))

    def stop(self) -> None:
        """End the server. Its children go on."""
        self._socket.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def _await_imports(self) -> None:
        if not self._ready:
            self._socket.settimeout(IMPORTED_WITHIN)
            if not self._socket.recv(LONGEST_MESSAGE):
                raise ConnectionError("the fork server ended while it imported")
            self._ready = True


def reap_strangers(own: frozenset[int]) -> None:
    """Collect ended processes that became children of this one as orphans. `own`: pids that others collect."""
    while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if found.si_pid in own:
            return  # an ended child of ours may hide another; it is collected first
        os.waitpid(found.si_pid, 0)

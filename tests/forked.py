"""Processes of the product that start fast: they are forked from a process that has imported the libraries already.

Python and Django need more than a second of a core to start, most of it for imports, and a run of all tests starts some
hundred processes. The process behind `python -m tests.forked SOCKET` has imported libraries and the pure package
`controlplane`, nothing that reads the environment or the settings. For each connection it forks once: the child takes
over environment, arguments and log of the request, then runs the program exactly as `python <arguments>` does.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
AVAILABLE = sys.platform.startswith("linux")
PR_SET_PDEATHSIG = 1
STARTS_WITHIN = 180.0  # seconds
IMPORTED = (
    *("controlplane.controllers", "controlplane.insight.situation", "controlplane.insight.begun"),
    *("controlplane.engine.run", "controlplane.engine.merge", "controlplane.engine.capacity_conflicts"),
    *("controlplane.admission.policies", "controlplane.admission.webhooks", "controlplane.clusters.proxy"),
    *("controlplane.kinds.template.admission_expressions", "controlplane.wire.protobuf", "controlplane.wire.request"),
    *("django.core.management", "django.db.models", "django.forms", "django.template", "django.urls"),
    *("django.db.backends.postgresql.base", "django.contrib.auth.hashers", "django.contrib.auth.apps"),
    *("django.contrib.admin", "django.contrib.postgres.apps", "django.contrib.postgres.fields", "django.db.migrations"),
    *(
        "django.contrib.staticfiles.apps",
        "django.template.defaulttags",
        "django.templatetags.i18n",
        "django.views.i18n",
    ),
    *("rest_framework", "rest_framework.fields", "rest_framework.metadata", "rest_framework.authentication"),
    *("celery.bin.celery", "celery.apps.worker", "celery.apps.beat", "celery.concurrency.prefork"),
    *("kombu.transport.redis", "redis", "psycopg", "psycopg_pool", "numpy", "yaml", "orjson", "jsonpatch"),
    *("aiohttp.web", "aiohttp_socks", "httptools", "uvicorn", "uvloop", "requests", "jwt", "wsgiref.simple_server"),
    *("cryptography.x509", "cryptography.fernet", "cryptography.hazmat.primitives.serialization"),
)  # not prometheus_client: it reads PROMETHEUS_MULTIPROC_DIR when it is imported


class Forked:
    """A process that was started so, with what tests use of subprocess.Popen."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection  # says how the process has ended

    def poll(self) -> int | None:
        """Return how it has ended, None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return how it has ended. Raises subprocess.TimeoutExpired if it still runs after `timeout` seconds."""
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _ended(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            self.returncode = int(self._connection.recv(64) or b"-9")  # nothing: the process they are forked from ended
            self._connection.close()
        return self.returncode


def start(arguments: Sequence[str], *, env: Mapping[str, str], output: int, errors: int | None = None) -> Forked:
    """Start `python <arguments>` in the project, in a session of its own, with these file descriptors."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    request = json.dumps({"arguments": list(arguments), "env": dict(env)}).encode()
    socket.send_fds(connection, [len(request).to_bytes(8, "big")], [output, output if errors is None else errors])
    connection.sendall(request)
    return Forked(int(connection.recv(64)), connection)


def run(
    arguments: Sequence[str], *, env: Mapping[str, str], timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """Run `python <arguments>` in the project to its end; return its status and what it printed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = start(arguments, env=env, output=output.fileno(), errors=errors.fileno()).wait(timeout)
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(list(arguments), status, output.read().decode(), errors.read().decode())


def python(arguments: Sequence[str], *, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `python <arguments>` as `run` does, where processes cannot be forked so as a new Python."""
    if AVAILABLE:
        return run(arguments, env=env)
    return subprocess.run(
        [sys.executable, *arguments], cwd=PROJECT, env=env, capture_output=True, text=True, timeout=300, check=False
    )


@cache
def _server() -> str:
    """Return the address of this process's server, which ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="lifeboat-forked-")
    address = str(Path(folder.name) / "socket")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", address],
        cwd=PROJECT,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"

    def ended() -> None:
        server.stdin.close()  # type: ignore[union-attr]
        server.wait(STARTS_WITHIN)
        folder.cleanup()

    atexit.register(ended)
    return address


# The process they are forked from


def serve(address: str) -> dict[str, Any] | None:
    """Fork for each connection and report how the child ended. Return its request in a child, None at the end."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    running: dict[int, socket.socket] = {}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            found = select.select([listener, woken, sys.stdin], [], [])[0]
            if woken in found:
                os.read(woken, 1024)
                _reap(running)
            if listener in found:
                connection, _ = listener.accept()
                request, files = _received(connection)
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    for one in (woken, wake):
                        os.close(one)
                    for other in running.values():
                        other.close()
                    _begin(connection, files)
                    return request
                running[pid] = connection
                for file in files:
                    os.close(file)
            if sys.stdin in found:
                return None


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    head, files, *_ = socket.recv_fds(connection, 8, 2)
    with connection.makefile("rb") as stream:
        request: dict[str, Any] = json.loads(stream.read(int.from_bytes(head, "big")))
    return request, list(files)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as connection:
            try:
                connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            except ConnectionError:
                pass  # the test is over


def _begin(connection: socket.socket, files: list[int]) -> None:
    """Become a process of its own: session, signals and files; then say which."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, file in enumerate((nothing, *files)):
        os.dup2(file, place)
        os.close(file)
    connection.sendall(str(os.getpid()).encode())
    connection.close()


def become(request: dict[str, Any]) -> None:
    """Run what was asked for as Python's command line does."""
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    warnings.resetwarnings()
    for action in filter(None, request["env"].get("PYTHONWARNINGS", "").split(",")):
        warnings.simplefilter(action)  # type: ignore[arg-type]
    first, *rest = request["arguments"]
    if first == "-m":
        module, *rest = rest
        sys.argv = [module, *rest]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif first == "-c":
        sys.argv = [first, *rest[1:]]
        exec(rest[0], {"__name__": "__main__"})
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # children share this memory
    if (asked := serve(sys.argv[1])) is not None:
        become(asked)

"""`python -m apps.development.preloaded <pid of the supervisor>`: imports all code, and forks on request.

Requests and answers are messages on the socket that is standard input. The end of the stream ends the process.
"""

import atexit
import ctypes
import gc
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from apps.development.supervise.fork_server import LONGEST_MESSAGE
from apps.development.supervise.processes import PR_SET_PDEATHSIG

# What the processes import when they start. `apps.worker.tasks` is missing: it has the shared memory of one worker.
MODULES = (
    "apps.api.management.commands.serve",
    "apps.api.shell",
    "apps.members.management.commands.members",
    "apps.simulator.members",
    "apps.worker.audit_delivery",
    "apps.worker.beat_presence",
    "apps.worker.tick_scheduler",
    "apps.worker.notices",
    "apps.worker.outside_world",
    "apps.worker.process_pool",
    "apps.worker.turn",
    "apps.worker.watchdog",
    "billiard.heap",
    "billiard.popen_fork",
    "billiard.sharedctypes",
    "billiard.synchronize",
    "celery.app.amqp",
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.app.routes",
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.contrib.django.task",
    "celery.events.dispatcher",
    "celery.events.receiver",
    "celery.fixups.django",
    "celery.worker.autoscale",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.consumer.delayed_delivery",
    "config.celery",
    "config.urls",
    "kombu.mixins",
    "kombu.transport.redis",
    "psycopg_pool",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
)
_FIRST_FREE = 3  # file descriptors from here on belong to the fork server and not to its children


def main() -> int:
    supervisor = int(sys.argv[1])
    requests = socket.socket(fileno=os.dup(0))
    preload()
    _write_command_line(["lifeboat: code that the processes share"])
    requests.send(b"ready")
    while message := requests.recv(LONGEST_MESSAGE):
        requests.send(str(_forked(json.loads(message), supervisor)).encode())
    return 0


def preload() -> None:
    """Import the code of all processes, and keep the garbage collector away from it.

    The collector writes into each object that it visits, and a page that is written is no longer shared. Garbage is not
    collected either: the children would write their first objects into its memory, and so copy these pages.
    """
    gc.disable()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    _configure_logging_once()
    for name in MODULES:
        import_module(name)
    _make_what_all_need()
    gc.freeze()
    gc.enable()


def _make_what_all_need() -> None:
    """Make what each process would make for itself when it starts, about 5 MB."""
    from cryptography.fernet import Fernet
    from django.core.management import get_commands

    from apps.objects.store import store
    from config.celery import app

    store()  # with the watches of all controllers
    app.finalize()
    get_commands()
    secret = Fernet(Fernet.generate_key())
    secret.decrypt(secret.encrypt(b""))  # OpenSSL loads its algorithms
    for value in ("", (_ for _ in ())):  # their first test visits all subclasses of Mapping
        isinstance(value, Mapping)


def _configure_logging_once() -> None:
    """Keep the children from configuring logging again, which would copy about 1 MB in each.

    Its handlers write to standard error and output, which each child redirects. A file has to be opened by each child.
    """
    from django.conf import settings

    if settings.AUDIT_FILE in ("", "-"):
        settings.LOGGING_CONFIG = None


def _forked(request: dict[str, Any], supervisor: int) -> int:
    """Return the pid of a new process whose parent is the supervisor."""
    reading, writing = os.pipe()
    between = os.fork()
    if not between:
        pid = os.fork()
        if pid:
            os.write(writing, str(pid).encode())
            os._exit(0)
        _become(request, supervisor)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        pid = int(pipe.readline())
    os.waitpid(between, 0)  # from now on the supervisor is the parent
    return pid


def _become(request: dict[str, Any], supervisor: int) -> None:
    """Run a program in this process, and end it. Does not return."""
    status = 1
    try:
        while os.getppid() != supervisor:
            if _ended(supervisor):
                os._exit(1)
            time.sleep(0.001)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, request["stop_signal"], 0, 0, 0)
        if os.getppid() != supervisor:  # it ended before the line above
            os._exit(1)
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.closerange(_FIRST_FREE, os.sysconf("SC_OPEN_MAX"))
        atexit._clear()
        status = _run(request["argv"])
    except BaseException:  # noqa: BLE001  # the stack above belongs to the fork server
        traceback.print_exc()
    finally:
        _end(status)


def _run(argv: list[str]) -> int:
    """Run `python manage.py …` or `python -m module …` as the interpreter would. Returns the exit status."""
    _write_command_line(argv)
    try:
        if argv[1] == "-m":
            sys.argv = argv[2:]
            runpy.run_module(argv[2], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv[1:]
            runpy.run_path(argv[1], run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _end(status: int) -> None:
    """End this process as the interpreter does: threads, functions of atexit, buffers."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _write_command_line(argv: list[str]) -> None:
    """Show `argv` as the command line of this process in `ps`, as far as the room suffices."""
    with open("/proc/self/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    text = b"\0".join(os.fsencode(one) for one in argv)[: end - begin - 1]
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    sys.exit(main())

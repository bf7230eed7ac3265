"""Several API processes behind the same ports. A parent starts them, starts them again when they end, and ends them."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType

log = logging.getLogger(__name__)

BACKLOG = 2048  # connections that wait to be accepted
RESTART_SECONDS = 1.0  # a process that ends at once is started no more often


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that the processes share: each connection is accepted by whichever is free.

    Raises SystemExit if the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        raise SystemExit(f"{host}:{port} cannot be listened on: {error}") from error
    made.listen(BACKLOG)
    return made


class ProcessGroup:
    """The processes of one `manage.py serve`. Create it before threads and database connections exist."""

    def __init__(self, count: int, run: Callable[[int], None]) -> None:
        """`run(number)` serves until a signal ends it; numbers count from 0."""
        self._count = count
        self._run = run
        self._children: dict[int, int] = {}
        self._stopping = False

    def serve(self) -> None:
        """Run the processes until SIGTERM or SIGINT, which ends all of them."""
        for each in _ENDING:
            signal.signal(each, self._stop)
        alive, self._held = os.pipe()  # children read the end of the pipe when this process has died
        gc.freeze()  # what is loaded now stays in memory that the processes share
        for number in range(self._count):
            self._start(number, alive)
        while self._children:
            pid, status = os.wait()
            number = self._children.pop(pid)
            if self._stopping:
                continue
            log.error("API process %d ended with status %d and is started again", number, status)
            time.sleep(RESTART_SECONDS)
            if not self._stopping:
                self._start(number, alive)

    def _stop(self, received: int, frame: FrameType | None) -> None:
        self._stopping = True
        for pid in self._children:
            os.kill(pid, signal.SIGTERM)

    def _start(self, number: int, alive: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            pid = os.fork()
            if not pid:
                self._serve_as(number, alive)
            self._children[pid] = number
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)

    def _serve_as(self, number: int, alive: int) -> None:
        """Run as a child, and never return."""
        status = 1
        try:
            for each in _ENDING:
                signal.signal(each, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            os.close(self._held)
            threading.Thread(target=_end_with_parent, args=(alive,), name="parent", daemon=True).start()
            self._run(number)
            status = 0
        except KeyboardInterrupt:
            status = 0
        except SystemExit as error:
            print(error, file=sys.stderr)
        except BaseException:  # noqa: BLE001  # the parent's stack must not go on in the child
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


_ENDING = (signal.SIGTERM, signal.SIGINT)


def _end_with_parent(alive: int) -> None:
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)

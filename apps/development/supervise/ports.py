"""Free TCP ports on loopback."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Test whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like servers: a port in TIME_WAIT is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port(usual: int, *, tries: int = 50) -> int:
    """Return the usual port if it is free, else the next free one above it, else any free port."""
    for port in range(usual, usual + tries):
        if is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


@contextmanager
def claimed_port(usual: int, *, tries: int = 50) -> Iterator[int]:
    """Give a free port that no other supervisor gets before the block ends. By then its server must listen.

    If none of `tries` ports is free, any free port is given, without a claim.

    The claim is the UDP port of the same number, on which no server of ours listens. So two supervisors that start at
    the same moment get different ports, and a claim ends with its process.
    """
    for port in range(usual, usual + tries):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as claim:
            try:
                claim.bind((LOOPBACK, port))
            except OSError:
                continue
            if is_free(port):
                yield port
                return
    yield free_port(usual, tries=0)


def answers(port: int) -> bool:
    """Test whether a server accepts connections on this loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False

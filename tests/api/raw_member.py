"""A member that shows what is on the wire: it records each request and answers as the path says."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

SECONDS = 20.0
HTML = b"<script>alert(document.domain)</script>"
FLOOD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
BURST = b"".join(b"%07d\n" % number for number in range(250_000))  # more than all buffers between two processes hold


class Seen(NamedTuple):
    """A request: its first line, its headers by lower-case name, and its body as it was framed."""

    line: str
    headers: dict[str, list[str]]
    body: bytes


class RawMember:
    """Listens on the loopback. `flooded`: bytes of answers to GET …/flood that were sent."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self._tls = tls
        self.flooded = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._socket.close()
        for connection in self._connections:
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                if self._tls:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection.makefile("rb") as file:
            while line := file.readline().decode("latin-1").strip():
                headers: dict[str, list[str]] = {}
                while header := file.readline().decode("latin-1").strip():
                    name, _, value = header.partition(": ")
                    headers.setdefault(name.lower(), []).append(value)
                length = int(headers.get("content-length", ["0"])[0])
                seen = Seen(line, headers, file.read(length))
                if "transfer-encoding" in headers:
                    seen = seen._replace(body=b"".join(_chunks(file)))
                self.seen.append(seen)
                path = line.split()[1].partition("?")[0].rpartition("/")[2]
                if path == "flood":
                    connection.sendall(FLOOD)
                    while True:
                        self.flooded += connection.send(bytes(65_536))
                if path == "deaf":
                    connection.sendall(SWITCH)
                    return  # the connection stays open, and nothing more is read
                if path == "burst":
                    connection.sendall(SWITCH + BURST)
                    file.read(len("early "))  # else the system discards what it has not sent yet
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                if path == "switch":
                    connection.sendall(SWITCH + b"hello ")
                    while data := connection.recv(65_536):
                        connection.sendall(data.upper())
                    return
                if path != "hole":
                    connection.sendall(_answer(path))
                if path == "broken":
                    connection.shutdown(socket.SHUT_RDWR)


def _chunks(file: object) -> Iterator[bytes]:
    while size := int(file.readline(), 16):  # type: ignore[attr-defined]
        yield file.read(size)  # type: ignore[attr-defined]
        file.readline()  # type: ignore[attr-defined]
    file.readline()  # type: ignore[attr-defined]


def _answer(path: str) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: sessionid=theirs; Path=/\r\n"
    if path == "redirect":
        return b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    if path == "refused":
        return b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
    if path == "unchanged":
        return b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    if path == "page":
        hostile = b"X-Accel-Redirect: /secret\r\nAccess-Control-Allow-Origin: *\r\nClear-Site-Data: *\r\n"
        return head + hostile + b"Content-Length: %d\r\n\r\n" % len(HTML) + HTML
    if path == "broken":
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nonly a part"
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def raw_member(tls: ssl.SSLContext | None = None) -> Iterator[RawMember]:
    """A member that records requests while the block runs."""
    member = RawMember(tls)
    try:
        yield member
    finally:
        member.close()

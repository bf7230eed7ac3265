"""A member that is hostile: it answers as a member does, until a test orders how it attacks its clients.

python -m tests.apps.hostile        says `listening on PORT`; GET /attack/NAME begins an attack, `none` ends it
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
MEBIBYTE = 1024 * 1024
RESOURCES = {"/api/v1": [("pods", "Pod"), ("nodes", "Node")], "/apis/apps/v1": [("deployments", "Deployment")]}
GROUPS = {"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1"}]}]}
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = JSON + b"Transfer-Encoding: chunked\r\n\r\n"
WATCHED = {"apiVersion": "apps/v1", "kind": "Deployment"}

Write = Callable[[bytes], Awaitable[None]]


@cache
def bomb() -> bytes:
    """Return 400 MiB in some 400 KB of gzip. It takes seconds, so it is not made when the module is imported."""
    return gzip.compress(b" " * 400 * MEBIBYTE)


def sized(body: bytes, more: bytes = b"") -> bytes:
    return JSON + more + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Member:
    """Answers one request after the other; `attack` names what is done to a client that asks anything but /readyz."""

    def __init__(self) -> None:
        self.attack = "none"
        self.numbers = count()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            while True:
                first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                length = next((int(one.split(":")[1]) for one in headers if one.lower().startswith("content-len")), 0)
                body = await reader.readexactly(length)
                method, address, _ = first.split()
                await self.answer(write, method, urlsplit(address).path, parse_qs(urlsplit(address).query), body)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went
        finally:
            writer.close()

    async def answer(self, write: Write, method: str, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if path.startswith("/attack/"):
            self.attack = path.rpartition("/")[2]
            await write(sized(b"{}"))
        elif path == "/readyz":
            await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
        elif self.attack != "none":
            await getattr(self, f"attack_{self.attack}")(write, method, path, query, body)
        else:
            await self.usual(write, method, path, query, body)

    async def usual(self, write: Write, method: str, path: str, query: dict[str, list[str]], body: bytes) -> None:
        if "watch" in query:
            await write(CHUNKED)
            await asyncio.sleep(1)
            await write(b"0\r\n\r\n")
        elif method == "PATCH":
            said = json.loads(body)
            said["metadata"] |= {"resourceVersion": str(next(self.numbers) + 10), "uid": "u"}
            await write(sized(json.dumps(said).encode()))
        elif path == "/version":
            await write(sized(b'{"gitVersion": "v1.30.0"}'))
        elif path == "/apis":
            await write(sized(json.dumps(GROUPS).encode()))
        elif path in RESOURCES:
            known = [{"name": name, "kind": kind, "namespaced": True} for name, kind in RESOURCES[path]]
            await write(sized(json.dumps({"resources": known}).encode()))
        elif path.rpartition("/")[2] in ("pods", "nodes", "deployments", "namespaces"):
            await write(sized(b'{"items": [], "metadata": {"resourceVersion": "1"}}'))
        else:
            await write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    async def attack_gzip(self, write: Write, *asked: object) -> None:
        await write(sized(bomb(), b"Content-Encoding: gzip\r\n"))

    async def attack_endless(self, write: Write, *asked: object) -> None:
        """A body, or a line of a watch, without end."""
        await write(CHUNKED)
        while True:
            await write(chunk(b"x" * 65_536))

    async def attack_pages(
        self, write: Write, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> None:
        if "limit" not in query:
            return await self.usual(write, method, path, query, body)
        said = {"items": [], "metadata": {"resourceVersion": "1", "continue": str(next(self.numbers))}}
        await write(sized(json.dumps(said).encode()))

    async def attack_drip(self, write: Write, *asked: object) -> None:
        await write(CHUNKED)
        while True:
            await write(chunk(b" "))
            await asyncio.sleep(0.2)

    async def attack_headers(self, write: Write, *asked: object) -> None:
        await write(JSON)
        for number in self.numbers:
            await write(b"X-%d: %s\r\n" % (number, b"x" * 4_000))

    async def attack_deep(self, write: Write, *asked: object) -> None:
        await write(sized(b'{"metadata":' * 200_000 + b"1" + b"}" * 200_000))

    async def attack_values(self, write: Write, *asked: object) -> None:
        await write(sized(b'{"metadata":{},"items":[' + b"{}," * 2_500_000 + b"{}]}"))

    async def attack_interim(self, write: Write, *asked: object) -> None:
        while True:
            await write(b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000)

    async def attack_chunks(self, write: Write, *asked: object) -> None:
        """A body of which each byte is a chunk of its own."""
        await write(CHUNKED)
        while True:
            await write(b"1\r\nx\r\n" * 10_000)

    async def attack_events(
        self, write: Write, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> None:
        """Ever more objects of ours, one after the other."""
        if "watch" not in query:
            return await self.usual(write, method, path, query, body)
        await write(CHUNKED)
        while True:
            await write(b"".join(chunk(self.event(next(self.numbers))) for _ in range(200)))

    def event(self, number: int) -> bytes:
        labels = {"karmada.io/managed": "true"}
        made_from = {"work.karmada.io/namespace": "karmada-es-hostile", "work.karmada.io/name": f"w-{number}"}
        metadata = {"name": f"x-{number}", "namespace": "default", "labels": labels, "annotations": made_from}
        item = {**WATCHED, "metadata": {**metadata, "resourceVersion": str(number + 10)}, "data": "x" * 10_000}
        return json.dumps({"type": "ADDED", "object": item}).encode() + b"\n"


ATTACKS = tuple(sorted(name.removeprefix("attack_") for name in vars(Member) if name.startswith("attack_")))


async def listen() -> None:
    bomb()  # before the first request
    server = await asyncio.start_server(Member().serve, HOST, 0, limit=16 * MEBIBYTE)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(listen())

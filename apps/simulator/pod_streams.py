"""Streams of a simulated pod: its log with `follow`, and a command whose output is what it was given.

A command gets the channels that Kubernetes has in a websocket: the first byte of a message is the channel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import orjson
from aiohttp import WSMsgType, web

from apps.simulator.objects import Objects
from controlplane.apimachinery.errors import BadRequest, NotFound

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
LINE_SECONDS = 1.0  # between two lines of a log that is followed
_STDIN, _STDOUT, _ERROR, _CLOSED = 0, 1, 3, 255
_SUCCESS = orjson.dumps({"metadata": {}, "status": "Success"})


def stream_of(parts: Sequence[str], query: dict[str, str]) -> str:
    """Return the stream of a pod that a path names: log (with follow=true only), exec or attach; "": none."""
    if len(parts) != 7 or list(parts[:3]) != ["api", "v1", "namespaces"] or parts[4] != "pods":
        return ""
    if parts[6] == "log":
        return "log" if query.get("follow") == "true" else ""
    return parts[6] if parts[6] in ("exec", "attach") else ""


def log_text(name: str) -> str:
    """Return the log of a pod until now."""
    return f"{name}: this pod is simulated\n{name}: ready\n"


async def serve(http: web.BaseRequest, objects: Objects, parts: Sequence[str], stream: str) -> web.StreamResponse:
    """Answer a request for a stream of a pod. Raises NotFound without the pod, BadRequest without a websocket."""
    namespace, name = parts[3], parts[5]
    if stream == "log":
        return await _follow(http, objects, namespace, name)
    _check(objects, namespace, name)
    if http.headers.get("Upgrade", "").lower() != "websocket":
        raise BadRequest("a simulated pod runs commands through a websocket only")
    return await _run(http, [*http.query.getall("command", [])], reads=http.query.get("stdin") == "true")


def _check(objects: Objects, namespace: str, name: str) -> None:
    if objects.store.get("Pod", namespace, name) is None:
        raise NotFound.of("pods", name)


async def _follow(http: web.BaseRequest, objects: Objects, namespace: str, name: str) -> web.StreamResponse:
    """Send a line every LINE_SECONDS until the pod is gone."""
    _check(objects, namespace, name)
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(http)
    await response.write(log_text(name).encode())
    while objects.store.get("Pod", namespace, name) is not None:
        await response.write(f"{name}: {datetime.now(UTC).isoformat(timespec='milliseconds')}\n".encode())
        await asyncio.sleep(LINE_SECONDS)
    await response.write_eof()
    return response


async def _run(http: web.BaseRequest, command: list[str], *, reads: bool) -> web.StreamResponse:
    """Send the words of the command. `reads`: then send back what the client sends, until it closes its input."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(http)
    if command:
        await socket.send_bytes(bytes((_STDOUT,)) + " ".join(command).encode() + b"\n")
    if reads:
        async for message in socket:
            if message.type is not WSMsgType.BINARY or message.data[:1] == bytes((_CLOSED,)):
                break
            if message.data[:1] == bytes((_STDIN,)) and message.data[1:]:
                await socket.send_bytes(bytes((_STDOUT,)) + message.data[1:])
    await socket.send_bytes(bytes((_ERROR,)) + _SUCCESS)
    await socket.close()
    return socket

"""The channels of a command that runs in a container, over streams of SPDY.

A kube-apiserver translates the websockets of its clients to SPDY before it calls a kubelet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final

import orjson

from tests.kubelet.spdy import Connection, Stream

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
NAMES: Final = {STDIN: "stdin", STDOUT: "stdout", STDERR: "stderr", ERROR: "error", RESIZE: "resize"}
PROTOCOL: Final = "v4.channel.k8s.io"


class Channels:
    """What a command reads and writes: streams with a header that names them."""

    def __init__(self, connection: Connection, streams: Mapping[int, Stream]) -> None:
        self._connection, self._streams = connection, streams

    @classmethod
    async def opened(cls, connection: Connection, wanted: Collection[int]) -> Channels:
        """Return the channels as soon as the client has opened all that are wanted."""
        numbers = {name: channel for channel, name in NAMES.items()}
        streams: dict[int, Stream] = {}
        while not set(wanted) <= set(streams):
            stream = await connection.accepted.get()
            if stream is None:
                raise ConnectionError(f"the client has opened the channels {sorted(streams)} of {sorted(wanted)}")
            streams[numbers[stream.headers["streamtype"]]] = stream
        return cls(connection, streams)

    async def received(self, channel: int) -> AsyncIterator[bytes]:
        """Yield what the client sends in a channel, until it closes the channel or goes."""
        async for data in self._streams[channel]:
            yield data

    async def write(self, channel: int, data: bytes) -> None:
        """Send bytes in a channel."""
        await self._streams[channel].write(data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Send how the command ended, and close."""
        await self.write(ERROR, orjson.dumps(status))
        for stream in self._streams.values():
            await stream.end()
        await self._connection.go_away()

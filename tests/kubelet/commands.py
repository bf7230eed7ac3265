"""What a container does here: it runs the commands of an exec on this machine, and echoes what is attached to it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import orjson

from tests.kubelet.channels import RESIZE, STDERR, STDIN, STDOUT, Channels

SUCCESS: Final[Mapping[str, Any]] = {"metadata": {}, "status": "Success"}
_BYTES: Final = 65_536


async def run(channels: Channels, command: Sequence[str], *, reads: bool, terminal: bool) -> None:
    """Run a command until it ends, and send how it ended."""
    try:
        code = await (_in_terminal if terminal else _run)(channels, command, reads)
    except OSError as error:
        await channels.finish({"metadata": {}, "status": "Failure", "reason": "InternalError", "message": str(error)})
        return
    await channels.finish(SUCCESS if code == 0 else _failure(code))


async def echo(channels: Channels, place: str, *, reads: bool) -> None:
    """Say to which container this is attached, and send back what the client sends."""
    await channels.write(STDOUT, f"attached to {place}\n".encode())
    if reads:
        async for data in channels.received(STDIN):
            await channels.write(STDOUT, data)
    await channels.finish(SUCCESS)


def _failure(code: int) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _run(channels: Channels, command: Sequence[str], reads: bool) -> int:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe if reads else asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )

    async def copy(source: asyncio.StreamReader, channel: int) -> None:
        while data := await source.read(_BYTES):
            await channels.write(channel, data)

    async def feed(sink: asyncio.StreamWriter) -> None:
        async for data in channels.received(STDIN):
            sink.write(data)
            await sink.drain()
        sink.close()

    feeding = asyncio.create_task(feed(process.stdin)) if process.stdin else None
    assert process.stdout is not None, "stdout is a pipe"
    assert process.stderr is not None, "stderr is a pipe"
    try:
        await asyncio.gather(copy(process.stdout, STDOUT), copy(process.stderr, STDERR))
        return await process.wait()
    finally:
        if feeding:
            feeding.cancel()


async def _in_terminal(channels: Channels, command: Sequence[str], reads: bool) -> int:
    ours, its = os.openpty()
    sizes = aiter(channels.received(RESIZE))
    _resize(ours, await anext(sizes))  # the client sends the size of its window at once
    process = await asyncio.create_subprocess_exec(*command, stdin=its, stdout=its, stderr=its, start_new_session=True)
    os.close(its)

    async def feed(given: AsyncIterator[bytes]) -> None:
        async for data in given:
            os.write(ours, data)

    async def follow() -> None:
        async for size in sizes:
            _resize(ours, size)

    tasks = [asyncio.create_task(follow())] + ([asyncio.create_task(feed(channels.received(STDIN)))] if reads else [])
    try:
        while data := await asyncio.to_thread(_read, ours):
            await channels.write(STDOUT, data)
        return await process.wait()
    finally:
        for task in tasks:
            task.cancel()
        os.close(ours)


def _read(terminal: int) -> bytes:
    """Return what a terminal shows; nothing if its command has ended."""
    try:
        return os.read(terminal, _BYTES)
    except OSError:
        return b""


def _resize(terminal: int, data: bytes) -> None:
    size = orjson.loads(data)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))

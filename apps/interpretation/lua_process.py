"""The process that runs scripts: `python -m apps.interpretation.lua_process`. It reads calls from its standard input
and writes an answer to each, in order.

A message is its length (4 bytes, big endian) and JSON. A call has the script, the name of its function, its arguments,
how many results are read, and the references for the shapes of empty tables. An answer has `values` or `error`.
"""

from __future__ import annotations

import resource
import signal
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from lupa import lua51

from apps.interpretation.kube_library import library
from apps.interpretation.lua_values import Reader, to_lua, with_shapes

HEADER = struct.Struct(">I")
MAX_COMPILED = 256  # scripts
OVERTIME = 3  # a call that the clock of the sandbox cannot stop ends the process after so many times its seconds
MAX_RESULT_BYTES = 4 * 2**20
SANDBOX = Path(__file__).with_name("sandbox.lua")


class Runner:
    """Runs functions of scripts in one Lua runtime."""

    def __init__(self, seconds: float) -> None:
        self._lua = lua51.LuaRuntime(
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_no_attributes,
        )
        host = self._lua.execute(SANDBOX.read_text().join(("return function(...) ", " end")))
        self._seconds = seconds
        self._run = host(library(self._lua.table), seconds, MAX_COMPILED)

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return the results of a call, or why there are none."""
        table = self._lua.table
        signal.setitimer(signal.ITIMER_VIRTUAL, self._seconds * OVERTIME)  # the signal ends this process
        try:
            found = self._run(call["script"], call["function"], *(to_lua(value, table) for value in call["arguments"]))
            done, *values = found if isinstance(found, tuple) else (found,)
            if done is not True:
                return {"error": str(values[0] if values else "the script failed")}
            values = [*values, None, None][: call["results"]]
            read = [with_shapes(Reader().read(value), call["references"]) for value in values]
        except (lua51.LuaError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            return {"error": _reason(error)}
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return {"values": read}


def _no_attributes(obj: Any, name: Any, is_setting: bool) -> str:
    """Refuse every access of a script to a value of Python."""
    raise AttributeError("scripts have no access to the host")


def _reason(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "the script needs more memory than it may have"
    return str(error) or type(error).__name__


def limit(memory: int) -> None:
    """Limit this process: more memory by at most `memory` bytes, no more files, no processes, no core dump."""
    used = _mapped()
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))


def _mapped() -> int:
    """Return how many bytes are mapped into this process; 0 where the system does not report it (macOS)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 0


def serve(source: BinaryIO, sink: BinaryIO, runner: Runner) -> None:
    """Answer calls until the source ends."""
    sink.write(HEADER.pack(0))  # ready
    sink.flush()
    while header := source.read(HEADER.size):
        call = orjson.loads(source.read(*HEADER.unpack(header)))
        text = orjson.dumps(runner.answer(call))
        if len(text) > MAX_RESULT_BYTES:
            text = orjson.dumps({"error": f"the result has more than {MAX_RESULT_BYTES} bytes"})
        sink.write(HEADER.pack(len(text)) + text)
        sink.flush()  # at once: the caller has to see which call does not end


if __name__ == "__main__":
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    ready = Runner(seconds)
    limit(memory)
    serve(sys.stdin.buffer, sys.stdout.buffer, ready)

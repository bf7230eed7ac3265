"""The process that runs scripts: `python -m apps.interpretation.lua_process`. It reads calls from its standard input
and writes an answer to each, in order.

A call has the script, the name of its function, its arguments, how many results are read, and the references for the
shapes of empty tables. An answer has `values` or `error`. `sandbox.lua` stops a script that has used its processor
time. A timer here ends the process if a script does not let the sandbox look at the clock.
"""

from __future__ import annotations

import resource
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from lupa import lua51

from apps.interpretation.kube_library import library
from apps.interpretation.lua_values import Reader, to_lua, with_shapes
from apps.objects.confined_process import limit, read, write

MAX_COMPILED = 256  # scripts
OVERTIME = 3  # a call that the clock of the sandbox cannot stop ends the process after so many times its seconds
MAX_RESULT_BYTES = 4 * 2**20
MAX_FILES = 8
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
        """Return the values that a call has returned, or its error as text.

        A call whose processor time exceeds the limit by far ends this process; `LuaProcess` starts another.
        """
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


def serve(source: BinaryIO, sink: BinaryIO, runner: Runner) -> None:
    """Answer calls until the source ends."""
    write(sink, b"{}")  # ready
    while (call := read(source)) is not None:
        text = orjson.dumps(runner.answer(call))
        if len(text) > MAX_RESULT_BYTES:
            text = orjson.dumps({"error": f"the result has more than {MAX_RESULT_BYTES} bytes"})
        write(sink, text)


if __name__ == "__main__":
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    ready = Runner(seconds)
    limit(memory)
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, MAX_FILES))
    serve(sys.stdin.buffer, sys.stdout.buffer, ready)

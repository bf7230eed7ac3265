"""Whether the scripts of a customization are Lua. They are compiled, not run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Object
from controlplane.kind import Kind
from controlplane.kinds import INTERPRETER_CUSTOMIZATION
from controlplane.kinds.interpreter_customization import OPERATIONS, InterpreterCustomization, script_path

BYTECODE = "\x1b"


def check_scripts(kind: Kind, new: Object) -> None:
    """Raise Invalid, with the line of each error, if a script of a customization is not Lua. Other kinds pass."""
    if kind.key != INTERPRETER_CUSTOMIZATION:
        return
    assert isinstance(new, InterpreterCustomization)
    causes = [
        invalid(
            script_path(OPERATIONS[operation][0]), "…", f"InterpreterOperation({operation}) Lua script error: {error}"
        )
        for operation, text in new.scripts()
        if (error := _error(text))
    ]
    if causes:
        raise Invalid.of(kind.resource.kind, new.metadata.name, causes, group=kind.resource.group)


def _error(text: str) -> str:
    """Return why a text is not Lua, with the line; "": it is."""
    if text.startswith(BYTECODE):
        return "compiled scripts are not accepted"
    lua51, compile_ = _compiler()
    try:
        compile_(text)
    except (lua51.LuaError, UnicodeError) as error:
        return str(error).removeprefix("error loading code: ").replace('[string "<python>"]', "script")
    return ""


@lru_cache(maxsize=1)
def _compiler() -> tuple[Any, Any]:
    """Return the library and its compiler. They are loaded at the first customization only."""
    from lupa import lua51  # most installations have no customization

    runtime = lua51.LuaRuntime(register_eval=False, register_builtins=False)
    return lua51, runtime.compile

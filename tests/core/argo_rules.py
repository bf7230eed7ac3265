"""The rules of health as Argo CD publishes them, evaluated: Lua files in a clone of its repository.

`make gitops RULES=FOLDER` names the folder resource_customizations of such a clone in ARGO_RULES. Nothing of it is part
of this repository; without the folder only our own reading of the rules (`argo_health`) judges.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from lupa.lua51 import LuaRuntime

from controlplane.interpret.interpreter import Document

VARIABLE: Final = "ARGO_RULES"
_KNOWN: Final = "apps/Deployment/health.lua"  # is in every clone since Argo CD has its rules for built-in kinds in Lua


def health(doc: Document) -> str | None:
    """Return the verdict of the published rule. None: no folder is named, or it has no rule in Lua for the kind.

    Raises FileNotFoundError if the folder has no rules.
    """
    folder = os.environ.get(VARIABLE)
    if not folder or (doc.get("metadata") or {}).get("deletionTimestamp"):
        return None
    if not Path(folder, _KNOWN).is_file():
        raise FileNotFoundError(f"{VARIABLE} has to name the folder resource_customizations: {folder} has no {_KNOWN}")
    group, _, _ = str(doc["apiVersion"]).rpartition("/")
    rule = Path(folder, group, doc["kind"], "health.lua")
    if not rule.is_file():
        return None
    lua: Any = LuaRuntime(unpack_returned_tuples=True)
    lua.globals()["obj"] = _value(lua, doc)
    return str(lua.execute(rule.read_text())["status"])


def _value(lua: Any, value: Any) -> Any:
    """Return a document as Lua sees it. A null is a missing field."""
    if isinstance(value, dict):
        return lua.table_from({key: _value(lua, one) for key, one in value.items() if one is not None})
    if isinstance(value, list | tuple):
        return lua.table_from([_value(lua, one) for one in value])
    return value

"""What Lifeboat knows about the objects of a kind: replicas, health, status, dependencies, fields to keep.

The rules follow Karmada's resource interpreter [resource-interpreter].
"""

from __future__ import annotations

from controlplane.interpret.interpreter import NO_OPERATIONS, Demand, Dependency, Document, Interpreter
from controlplane.interpret.native import NATIVE
from controlplane.interpret.thirdparty import THIRD_PARTY

__all__ = ["Demand", "Dependency", "Document", "Interpreter", "of"]

_KNOWN = {**NATIVE, **THIRD_PARTY}


def interpreter_for(api_version: str, kind: str) -> Interpreter:
    """Return the interpreter of a kind. A kind without rules has an interpreter all of whose operations are None."""
    return _KNOWN.get((api_version, kind), NO_OPERATIONS)

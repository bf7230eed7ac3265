"""What Lifeboat knows about the objects of a kind: replicas, health, status, dependencies, fields to keep.

The rules follow Karmada's resource interpreter [resource-interpreter]. Rules of users come before them (`customized`).
"""

from __future__ import annotations

from controlplane.interpret.customized import InterpretationFailed, Interpreters, Unanswered
from controlplane.interpret.interpreter import NO_OPERATIONS, Demand, Dependency, Document, Interpreter
from controlplane.interpret.native import NATIVE
from controlplane.interpret.thirdparty import THIRD_PARTY

__all__ = [
    "INTERPRETERS",
    "Demand",
    "Dependency",
    "Document",
    "InterpretationFailed",
    "Interpreter",
    "Interpreters",
    "Unanswered",
    "interpreter_for",
]

INTERPRETERS = Interpreters({**NATIVE, **THIRD_PARTY}, NO_OPERATIONS)
"""The interpreters of this process. As with KINDS, what users define is added by the process that reads it."""


def interpreter_for(api_version: str, kind: str) -> Interpreter:
    """Return the interpreter of a kind. A kind without rules has an interpreter all of whose operations are None."""
    return INTERPRETERS.of(api_version, kind)

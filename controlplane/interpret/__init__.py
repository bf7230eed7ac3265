"""What the product knows of an object's kind: replicas, health, status, what to keep, what it needs (semantics 4)."""

from __future__ import annotations

from controlplane.interpret.interpreter import NO_OPERATIONS, Demand, Dependency, Document, Interpreter
from controlplane.interpret.native import NATIVE

__all__ = ["Demand", "Dependency", "Document", "Interpreter", "of"]

_KNOWN = dict(NATIVE)


def interpreter_for(api_version: str, kind: str) -> Interpreter:
    """Return what is known of a kind; an Interpreter without operations where nothing is."""
    return _KNOWN.get((api_version, kind), NO_OPERATIONS)

"""Calls of rules for documents that may have values of any type [resource-interpreter].

The kinds of other projects often have no strict schema, and override policies may write anything into a copy. What a
rule that is known here cannot read, and a result that could not be read after it is stored, is reported as the failure
of a script or webhook is: it concerns only the object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from controlplane.interpret.customized import InterpretationFailed
from controlplane.interpret.interpreter import Document

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of a rule that is given a document with values of other types than its kind has."""

T = TypeVar("T")
R = TypeVar("R")


class KnownRule(NamedTuple):
    """What is known here of an operation of a kind."""

    kind: str
    operation: str

    @property
    def shown(self) -> str:
        return f"what is known of {self.kind}"


def result(operation: str, rule: Callable[[Document], T], doc: Document, read: Callable[[T], R]) -> R:
    """Return what `read` makes of the result of a rule. Raises InterpretationFailed, and Unanswered."""
    try:
        return read(rule(doc))
    except InterpretationFailed:
        raise
    except UNREADABLE as error:
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        known = KnownRule(f"{doc.get('apiVersion')} {doc.get('kind')}", operation)
        raise InterpretationFailed(known, reason) from error

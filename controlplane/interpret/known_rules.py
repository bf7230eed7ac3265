"""Calls of rules for documents that may have values of any type [resource-interpreter].

The kinds of other projects often have no strict schema, and override policies may write anything into a copy.
"""

from __future__ import annotations

from typing import Final

UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The errors of a rule that is given a document with values of other types than its kind has."""

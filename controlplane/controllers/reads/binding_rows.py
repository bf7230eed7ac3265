"""Rows of which a binding has at most one of a type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.rows import Row


def row_of_each(state: State, type_: type[Row], refs: Iterable[Ref]) -> dict[str, Any]:
    """Return the rows of a type that belong to these bindings, by reference as text."""
    return {row.key: row for rows in state.rows(type_, "key", [str(ref) for ref in refs]).values() for row in rows}

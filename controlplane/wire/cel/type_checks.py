"""Checks of the expressions in an admission policy against the types of the kinds that it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from controlplane.wire.cel import environment
from controlplane.wire.cel.admission_faults import MESSAGE, variables_type
from controlplane.wire.cel.admission_types import declared, type_text
from controlplane.wire.cel.kind_nodes import Node
from controlplane.wire.cel.schema_types import Types

Begins = Callable[[str, str], None]


def type_warnings(
    expressions: Iterable[Sequence[Any]],
    variables: Sequence[Sequence[str]],
    *,
    kinds: Sequence[tuple[str, Node]],
    params: Node | None,
    has_params: bool,
    begins: Begins,
) -> list[dict[str, str]]:
    """Return a warning for each expression that does not fit the types of a kind, with its field.

    Expressions and variables are those of `admission_faults.faults`. Each of `kinds` has its name and its node.
    params: the node of the parameters; None: their type is not known.
    """
    found: dict[str, list[str]] = {}
    stated = list(expressions)
    for name, node in kinds:
        checks = _Checks(node, params, has_params)
        for field, variable, text in variables:
            begins(field, text)
            checks.add(variable, text)
        for field, text, *_ in stated:
            begins(field, text)
            if error := checks.error(field, text):
                found.setdefault(field, []).append(f"{name}: {error}\n")
    return [{"fieldRef": field, "warning": "\n".join(texts)} for field, texts in found.items()]


class _Checks:
    """Checks of expressions against the types of one kind."""

    def __init__(self, node: Node, params: Node | None, has_params: bool) -> None:
        self._node, self._params, self._has_params = node, params, has_params
        self._variables: dict[str, str] = {}
        self._environments: dict[bool, Any] = {}

    def add(self, variable: str, text: str) -> None:
        """Find the type of a variable, which later expressions use. An error leaves it open, without a warning."""
        try:
            self._variables[variable] = type_text(environment.compiled(self._made(asks=True), text).return_type())
        except environment.CompileError:
            self._variables[variable] = "dyn"
        self._environments.clear()

    def error(self, field: str, text: str) -> str:
        """Return what is wrong with an expression; "": nothing."""
        try:
            environment.compiled(self._made(asks=not field.endswith(MESSAGE)), text)
        except environment.CompileError as error:
            return str(error)
        return ""

    def _made(self, *, asks: bool) -> Any:
        if asks not in self._environments:
            types = Types(reserved=True)
            names = declared(types, params=self._has_params, asks=asks)
            names["object"] = names["oldObject"] = types.name(self._node)
            if self._params is not None:
                names["params"] = types.name(self._params)
            if self._variables:
                names["variables"] = variables_type(types, self._variables)
            self._environments[asks] = environment.checker(names, types.file)
        return self._environments[asks]

"""Checks of the expressions in an admission policy or webhook when it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2

from controlplane.wire.cel import environment
from controlplane.wire.cel.admission_types import declared, type_shown, type_text
from controlplane.wire.cel.rule_faults import RuleFault
from controlplane.wire.cel.schema_types import Types

Begins = Callable[[str, str], None]
MESSAGE = ".messageExpression"  # the only expressions that may not ask what a user may do


class Expression(NamedTuple):
    """An expression with its field. `wanted`: the types of which its value must be, in the words of Kubernetes."""

    field: str
    text: str
    wanted: tuple[str, ...] = ()


def faults(
    expressions: Iterable[Sequence[Any]],
    variables: Sequence[Sequence[str]] = (),
    *,
    params: bool = False,
    begins: Begins,
) -> list[RuleFault]:
    """Return every error in expressions. Each is (field, text, wanted types), and a variable (field, name, text).

    params: expressions may use the parameters of a policy. `begins(field, text)` is called before each compilation.
    """
    found: list[RuleFault] = []
    known: dict[str, str] = {}
    for field, name, text in variables:
        fault, type_name = _checked(Expression(field, text), known, bool(variables), params, begins)
        found += fault
        known[name] = type_name
    for field, text, wanted in expressions:
        stated = Expression(field, text, tuple(wanted))
        found += _checked(stated, known, bool(variables), params, begins)[0]
    return found


def _checked(
    stated: Expression, known: Mapping[str, str], has_variables: bool, params: bool, begins: Begins
) -> tuple[list[RuleFault], str]:
    """Return the errors in an expression, and its type."""
    begins(stated.field, stated.text)
    types = Types(escapes=False)
    names = declared(types, params=params, asks=not stated.field.endswith(MESSAGE))
    if has_variables:
        names["variables"] = variables_type(types, known)
    try:
        program = environment.compiled(environment.checker(names, types.file), stated.text)
    except environment.CompileError as error:
        return [RuleFault(stated.field, stated.text, f"compilation failed: {error}")], "dyn"
    result = program.return_type()
    wanted = stated.wanted
    if not wanted or type_shown(result) in wanted:
        return [], type_text(result)
    choices = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
    return [RuleFault(stated.field, stated.text, f"must evaluate to {choices} but got {type_shown(result)}")], "dyn"


def variables_type(types: Types, known: Mapping[str, str]) -> str:
    """Return the name of the type of `variables`: an object with a field for each variable."""
    message: descriptor_pb2.DescriptorProto = types.file.message_type.add(name="Variables")
    for name, type_name in known.items():
        types.add_field(message, name, type_name)
    return f"schema.{message.name}"

"""The expressions in CEL of admission policies and webhooks, with the types that their values must have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from controlplane.kinds.template.admission_kinds import MUTATING, POLICY, VALIDATING

Document = dict[str, Any]
Stated = tuple[str, str, tuple[str, ...]]  # field, text, types

_BOOL, _STRING, _NOTE = ("bool",), ("string",), ("string", "null_type")


class Written(NamedTuple):
    """The expressions of an object, and its variables as (field, name, text). `params`: they may use parameters."""

    expressions: tuple[Stated, ...]
    variables: tuple[tuple[str, str, str], ...] = ()
    params: bool = False


def expressions_of(key: str, document: Document) -> Written:
    """Return the expressions of an object of a kind."""
    if key == POLICY:
        spec = document.get("spec") or {}
        variables = tuple(
            (f"spec.variables[{index}].expression", one["name"], one["expression"])
            for index, one in enumerate(spec.get("variables") or ())
        )
        return Written(tuple(_of_policy(spec)), variables, bool(spec.get("paramKind")))
    if key not in (MUTATING, VALIDATING):
        return Written(())
    hooks = enumerate(document.get("webhooks") or ())
    return Written(tuple(one for index, hook in hooks for one in _conditions(hook, f"webhooks[{index}].")))


def _of_policy(spec: Document) -> Iterator[Stated]:
    for index, validation in enumerate(spec.get("validations") or ()):
        at = f"spec.validations[{index}]"
        yield f"{at}.expression", validation["expression"], _BOOL
        if validation.get("messageExpression"):
            yield f"{at}.messageExpression", validation["messageExpression"], _STRING
    yield from _conditions(spec, "spec.")
    for index, note in enumerate(spec.get("auditAnnotations") or ()):
        yield f"spec.auditAnnotations[{index}].valueExpression", note["valueExpression"], _NOTE


def _conditions(holder: Document, at: str) -> Iterator[Stated]:
    for index, condition in enumerate(holder.get("matchConditions") or ()):
        yield f"{at}matchConditions[{index}].expression", condition["expression"], _BOOL

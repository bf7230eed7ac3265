"""Checks of the rules in a schema when its CustomResourceDefinition is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from controlplane.wire.cel import environment
from controlplane.wire.cel.kind_nodes import Node
from controlplane.wire.cel.rules import VALIDATIONS, steps_of
from controlplane.wire.cel.schema_types import Types

REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
MAX_RULES = 500  # of one schema
_MAX_MESSAGE = 2048


class RuleFault(NamedTuple):
    """An error in a rule: its field, the value there, and why it is refused.

    `is_missing`: a required value is missing. `choices`: the supported values, if the value is not one of them.
    """

    field: str
    value: Any
    why: str
    is_missing: bool = False
    choices: tuple[str, ...] = ()


class _Place(NamedTuple):
    """A node of a schema. `lost` is the field of the list or map whose items have no old value; "": there is none."""

    field: str
    node: Node
    lost: str
    is_root: bool = False


def faults(root: Node, field: str, *, begins: Callable[[str, str], None]) -> list[RuleFault]:
    """Return every error in the rules of a schema. `begins(field, rule)` is called before a rule is compiled."""
    found: list[RuleFault] = []
    count = 0
    for place in _places(_Place(field, root, "", is_root=True)):
        rules = place.node.get(VALIDATIONS)
        if not rules:
            continue
        count += len(rules)
        if count > MAX_RULES:
            return [RuleFault(field, count, f"has more than {MAX_RULES} rules")]
        types = Types()
        type_name = types.name(place.node, is_root=place.is_root)
        for index, rule in enumerate(rules):
            at = f"{place.field}.{VALIDATIONS}[{index}]"
            begins(at, str(rule.get("rule", "")))
            shape = list(_shape(rule, place.node, at))
            found += shape or _compiled(rule, place, at, type_name, types)
    return found


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    node, field = place.node, place.field
    is_atomic = node.get("x-kubernetes-map-type") == "atomic"
    lost = place.lost or (field if is_atomic else "")
    for name, inner in (node.get("properties") or {}).items():
        yield from _places(_Place(f"{field}.properties[{name}]", inner, lost))
    values = node.get("additionalProperties")
    if isinstance(values, Mapping):
        yield from _places(_Place(f"{field}.additionalProperties", values, lost))
    items = node.get("items")
    if isinstance(items, Mapping):
        lost = place.lost or ("" if node.get("x-kubernetes-list-type") == "map" else field)
        yield from _places(_Place(f"{field}.items", items, lost))


def _shape(rule: Mapping[str, Any], node: Node, at: str) -> Iterator[RuleFault]:
    """Yield the errors in a rule that need no compiler."""
    text, message = str(rule.get("rule") or ""), str(rule.get("message") or "")
    if not text.strip():
        yield RuleFault(f"{at}.rule", text, "rule is not specified", is_missing=True)
    if message and not message.strip():
        yield RuleFault(f"{at}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield RuleFault(f"{at}.message", message, "must not contain line breaks")
    elif len(message) > _MAX_MESSAGE:
        yield RuleFault(f"{at}.message", message, f"must have a maximum length of {_MAX_MESSAGE} characters")
    elif "\n" in text.strip() and not message:
        why = "message must be specified if rule contains line breaks"
        yield RuleFault(f"{at}.message", message, why, is_missing=True)
    expression = rule.get("messageExpression")
    if expression and not str(expression).strip():
        why = "messageExpression must be non-empty if specified"
        yield RuleFault(f"{at}.messageExpression", expression, why, is_missing=True)
    reason = rule.get("reason")
    if reason is not None and reason not in REASONS:
        yield RuleFault(f"{at}.reason", reason, "", choices=REASONS)
    path = rule.get("fieldPath")
    if path and not steps_of(str(path), node):
        yield RuleFault(f"{at}.fieldPath", path, "must be a valid path")
    if rule.get("optionalOldSelf") is not None and "oldSelf" not in environment.names_in(text):
        why = "may not be set if oldSelf is not used in rule"
        yield RuleFault(f"{at}.optionalOldSelf", rule["optionalOldSelf"], why)


def _compiled(rule: Mapping[str, Any], place: _Place, at: str, type_name: str, types: Types) -> Iterator[RuleFault]:
    """Yield the errors that the compiler finds in the expressions of a rule."""
    text = str(rule["rule"])
    uses_old, is_optional = "oldSelf" in environment.names_in(text), rule.get("optionalOldSelf") is True
    if uses_old and place.lost:
        why = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.lost}"
        yield RuleFault(f"{at}.rule", text, why)
        return
    variables = {"self": type_name}
    variables |= {"__old": f"list({type_name})"} if is_optional else {"oldSelf": type_name}
    checker = environment.checker(variables, types.file)
    for key, wanted, ending in (
        ("rule", "bool", "cel expression must evaluate to a bool"),
        ("messageExpression", "string", "messageExpression must evaluate to a string"),
    ):
        expression = str(rule.get(key) or "")
        if not expression:
            continue
        source = environment.renamed(expression, "oldSelf", "(__old[?0])") if is_optional else expression
        prefix = "" if key == "rule" else f"{key} "
        try:
            program = environment.compiled(checker, source)
        except environment.CompileError as error:
            yield RuleFault(f"{at}.{key}", expression, f"{prefix}compilation failed: {error}")
            continue
        if not environment.returns(program, wanted):
            yield RuleFault(f"{at}.{key}", expression, ending)

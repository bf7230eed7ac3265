"""The rules of a schema (`x-kubernetes-validations`), and which of them a document breaks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from controlplane.apimachinery.causes import shown
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import Cause
from controlplane.wire.cel import environment
from controlplane.wire.cel.kind_nodes import Node
from controlplane.wire.cel.schema_types import fields_of, to_cel

VALIDATIONS: Final = "x-kubernetes-validations"
MAX_CAUSES: Final = 100  # of one write; more are not reported
MISSING: Final = object()  # stands for a value that there is not
_OLD = "__old"  # a list of the old value, or an empty list: `__old[?0]` is then an optional
_MAX_MESSAGE = 5120
_FIELD_PATH = re.compile(r"\.([A-Za-z_][\w$-]*)|\['((?:\\.|[^'\\])*)'\]")


class Step(NamedTuple):
    """One step of a path: the name of a field, the key of a map, or the index of an item."""

    text: str
    is_field: bool = False


Path = tuple[Step, ...]


class Rule:
    """A rule of a schema. Its expressions are compiled when they are first needed."""

    def __init__(self, stated: Mapping[str, Any], node: Node) -> None:
        self.text = str(stated.get("rule", ""))
        self.message = str(stated.get("message") or "").strip()
        self.reason = str(stated.get("reason") or "FieldValueInvalid")
        self.message_expression = str(stated.get("messageExpression") or "")
        self.uses_old = "oldSelf" in environment.names_in(self.text)
        self.is_optional = stated.get("optionalOldSelf") is True
        self.steps = steps_of(str(stated.get("fieldPath") or ""), node) or ()
        self._programs: dict[str, Any] = {}

    def value(self, expression: str, variables: Mapping[str, Any]) -> Any:
        """Return the value of an expression of this rule. Raises ValueError with the reason if it has none."""
        program = self._programs.get(expression)
        if program is None:
            text = environment.renamed(expression, "oldSelf", f"({_OLD}[?0])") if self.is_optional else expression
            runner = environment.runner(tuple(variables))
            program = self._programs[expression] = environment.compiled(runner, text)
        return environment.run(program, variables)

    @property
    def said(self) -> str:
        """Return the message of the rule, or the rule itself."""
        return self.message or self.text.strip()


class RuledNode:
    """A node of a schema with its rules, and the nodes inside it that have rules."""

    def __init__(self, node: Node, *, is_root: bool = False) -> None:
        self.node, self.is_root = node, is_root
        self.rules = [Rule(stated, node) for stated in node.get(VALIDATIONS) or () if isinstance(stated, Mapping)]
        fields = fields_of(node, is_root=is_root)
        self.fields = {name: inner for name, child in fields.items() if (inner := RuledNode(child)).matters}
        self.items = _inner(node.get("items"))
        self.values = None if self.fields else _inner(node.get("additionalProperties"))

    @property
    def matters(self) -> bool:
        """Test whether the node or one inside it has rules."""
        return bool(self.rules or self.fields or self.items or self.values)


def _inner(node: Any) -> RuledNode | None:
    made = RuledNode(node) if isinstance(node, Mapping) else None
    return made if made is not None and made.matters else None


def has_rules(node: Node) -> bool:
    """Test whether a schema has rules anywhere."""
    return RuledNode(node, is_root=True).matters


def violations(root: RuledNode, new: Any, old: Any = MISSING, *, begins: Callable[[str, str], None]) -> list[Cause]:
    """Return a cause for every rule that a document breaks, at most 100.

    old: the stored document; MISSING: the object is created. `begins(field, rule)` is called before a rule is run.
    """
    causes: list[Cause] = []
    for cause in _walk(root, new, old, (), begins):
        causes.append(cause)
        if len(causes) == MAX_CAUSES:
            break
    return causes


def _walk(at: RuledNode, new: Any, old: Any, path: Path, begins: Callable[[str, str], None]) -> Iterator[Cause]:
    if new is None:
        return
    if at.rules:
        yield from _broken(at, new, old, path, begins)
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        is_atomic = at.node.get("x-kubernetes-map-type") == "atomic"
        for name, value in new.items():
            was = MISSING if is_atomic else before.get(name, MISSING)
            inner = at.fields.get(name)
            if inner is not None:
                yield from _walk(inner, value, was, (*path, Step(name, is_field=True)), begins)
            elif at.values is not None:
                yield from _walk(at.values, value, was, (*path, Step(name)), begins)
    elif isinstance(new, list) and at.items is not None:
        partners = _partners(at.node, old)
        for index, item in enumerate(new):
            was = partners.get(_identity(at.node, item), MISSING) if partners else MISSING
            yield from _walk(at.items, item, was, (*path, Step(str(index))), begins)


def _partners(node: Node, old: Any) -> dict[Any, Any]:
    """Return the old items of a list of type map by their keys. Items of other lists have no old value."""
    if node.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return {}
    return {_identity(node, item): item for item in old}


def _identity(node: Node, item: Any) -> Any:
    keys = node.get("x-kubernetes-list-map-keys") or ()
    return tuple(shown(item.get(key)) for key in keys) if isinstance(item, dict) else shown(item)


def _broken(at: RuledNode, new: Any, old: Any, path: Path, begins: Callable[[str, str], None]) -> Iterator[Cause]:
    """Yield a cause for each rule of a node that its value breaks.

    A rule that does not compare with the old value is not run again for a value that the write leaves as it is.
    """
    value = before = None
    is_unchanged = old is not MISSING and same(old, new)
    for rule in at.rules:
        if rule.uses_old and old is MISSING and not rule.is_optional:
            continue
        if is_unchanged and not rule.uses_old:
            continue
        if value is None:
            value = to_cel(new, at.node, is_root=at.is_root)
            before = MISSING if old is MISSING else to_cel(_aligned(old, new, at.node), at.node, is_root=at.is_root)
        begins(path_text(path), rule.text)
        cause = _cause(rule, value, before, new, at.node, path)
        if cause is not None:
            yield cause


def _aligned(old: Any, new: Any, node: Node) -> Any:
    """Return an old value with its lists of type set and map in the order of the new ones.

    The order of such lists has no meaning, so `self == oldSelf` is true for lists that differ in their order alone.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        fields, values = node.get("properties") or {}, node.get("additionalProperties")
        inner = values if isinstance(values, Mapping) else {}
        return {name: _aligned(value, new.get(name), fields.get(name, inner)) for name, value in old.items()}
    if not (isinstance(old, list) and isinstance(new, list)):
        return old
    if node.get("x-kubernetes-list-type") not in ("set", "map"):
        return old
    places = {_identity(node, item): index for index, item in enumerate(new)}
    ordered = sorted(old, key=lambda item: places.get(_identity(node, item), len(new)))
    partners = {_identity(node, item): item for item in new}
    return [_aligned(item, partners.get(_identity(node, item)), node.get("items") or {}) for item in ordered]


def _cause(rule: Rule, value: Any, before: Any, new: Any, node: Node, path: Path) -> Cause | None:
    """Return why a value breaks a rule; None: it follows the rule."""
    variables = {"self": value}
    if rule.is_optional:
        variables[_OLD] = [] if before is MISSING else [before]
    elif before is not MISSING:
        variables["oldSelf"] = before
    try:
        if rule.value(rule.text, variables) is True:
            return None
    except ValueError as error:
        message = f'Invalid value: "{node.get("type", "")}": {error} evaluating rule: {rule.said}'
        return Cause("FieldValueInvalid", message, path_text(path))
    field = path_text((*path, *rule.steps))
    detail = _detail(rule, variables)
    stated = "" if isinstance(new, dict | list) else f": {shown(new)}"
    match rule.reason:
        case "FieldValueForbidden":
            return Cause(rule.reason, f"Forbidden: {detail}", field)
        case "FieldValueRequired":
            return Cause(rule.reason, f"Required value: {detail}", field)
        case "FieldValueDuplicate":
            return Cause(rule.reason, f"Duplicate value{stated}", field)
    return Cause("FieldValueInvalid", f"Invalid value{stated}: {detail}", field)


def _detail(rule: Rule, variables: Mapping[str, Any]) -> str:
    """Return the message of a broken rule: of messageExpression, else of message, else the rule."""
    if rule.message_expression:
        try:
            found = rule.value(rule.message_expression, variables)
        except ValueError:
            found = ""
        if isinstance(found, str) and found.strip() and len(found) <= _MAX_MESSAGE and "\n" not in found:
            return found.strip()
    return rule.message or f"failed rule: {rule.text.strip()}"


def path_text(path: Path) -> str:
    """Return a path as causes show it, for example "spec.named[a].items[0]"."""
    text = ""
    for step in path:
        text += f"[{step.text}]" if not step.is_field else f".{step.text}" if text else step.text
    return text


def steps_of(field_path: str, node: Node) -> Path | None:
    """Return the steps of the fieldPath of a rule; None: the path is invalid, or the schema does not have it."""
    steps: list[Step] = []
    end = 0
    for found in _FIELD_PATH.finditer(field_path):
        if found.start() != end:
            return None
        end = found.end()
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", r"\1", found[2])
        fields, values = node.get("properties") or {}, node.get("additionalProperties")
        if name in fields:
            node, is_field = fields[name], True
        elif isinstance(values, Mapping):
            node, is_field = values, False
        else:
            return None
        steps.append(Step(name, is_field))
    return tuple(steps) if end == len(field_path) else None

"""Compiles the tables of types for a kind, and applies them to documents: defaults first, rules afterwards.

A document is visited where it has fields that a table describes. Other parts cost nothing.
"""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from controlplane.apimachinery import causes
from controlplane.kube.rules import Causes, Document, Fill, Rule, Type, Whole
from controlplane.kube.tables import TYPES
from controlplane.wire import builtin
from controlplane.wire.schema import REF_PREFIX, Components, Schema

_PREFIXES = ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.")
_LIST, _MAP = "[]", "{}"


class _Rules:
    """The rules of a type, with those of the fields that contain other types."""

    __slots__ = ("fields", "required", "whole")

    def __init__(self) -> None:
        self.required: tuple[str, ...] = ()
        self.fields: dict[str, tuple[Rule | None, _Rules | None, str]] = {}
        self.whole: tuple[Whole, ...] = ()


class _Defaults:
    """The defaults of a type, with those of the fields that contain other types."""

    __slots__ = ("fields", "fill", "values")

    def __init__(self) -> None:
        self.values: Document = {}
        self.fill: Fill | None = None
        self.fields: dict[str, tuple[_Defaults, str]] = {}


def causes_in(name: str, document: Document) -> Causes:
    """Return the causes against a document of a kind. `name` is the name of its component in the schemas."""
    found: Causes = []
    if document.get("spec") is None and "spec" in _fields(name):
        document = {**document, "spec": {}}
    _check(_compiled().rules(name), document, "", found)
    return found


def filled(name: str, document: Document) -> Document:
    """Return the document with its defaults. Parts without a missing default are shared with the argument."""
    defaults = _compiled().defaults(name)
    if document.get("spec") is None and "spec" in defaults.fields:
        filled_spec = _filled(defaults.fields["spec"][0], {})
        return _filled(defaults, {**document, "spec": filled_spec} if filled_spec else document)
    return _filled(defaults, document)


@cache
def checked_schema(group: str, version: str, kind: str) -> Schema:
    """Return the schema of a kind without the required fields of the types that tables describe.

    Rules refuse those, with the fields and reasons of Kubernetes.
    """
    name = builtin.component_name(group, version, kind)
    return builtin.schema(group, version, kind) if name is None else _checked_components().schema(name)


@cache
def _checked_components() -> Components:
    schemas = builtin.components().schemas
    made = {
        name: {key: value for key, value in node.items() if key != "required"} if _type_of(name) else node
        for name, node in schemas.items()
    }
    return Components(made)


def _check(node: _Rules, value: Document, at: str, out: Causes) -> None:
    for name in node.required:
        if not value.get(name):
            out.append(causes.required(f"{at}.{name}" if at else name))
    fields = node.fields
    for name, inner in value.items():
        if inner is None or name not in fields:
            continue
        rule, child, form = fields[name]
        where = f"{at}.{name}" if at else name
        if rule is not None:
            rule(inner, where, out)
        if child is None:
            continue
        if form == _LIST:
            for index, item in enumerate(inner):
                if item is not None:
                    _check(child, item, f"{where}[{index}]", out)
        elif form == _MAP:
            for key, item in inner.items():
                if item is not None:
                    _check(child, item, f"{where}[{key}]", out)
        else:
            _check(child, inner, where, out)
    for whole in node.whole:
        whole(value, at, out)


def _filled(node: _Defaults, value: Document) -> Document:
    made = dict(value)
    for name, default in node.values.items():
        if made.get(name) in (None, ""):
            made[name] = copy.deepcopy(default) if isinstance(default, dict | list) else default
    if node.fill is not None:
        made = node.fill(made)
    for name, (child, form) in node.fields.items():
        inner = made.get(name)
        if not inner and not (isinstance(inner, dict) and form == ""):
            continue
        if form == _LIST:
            made[name] = [_filled(child, item) if isinstance(item, dict) else item for item in inner]
        elif form == _MAP:
            made[name] = {key: _filled(child, item) for key, item in inner.items()}
        elif isinstance(inner, dict):
            made[name] = _filled(child, inner)
    return made


def _type_of(name: str) -> Type | None:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return TYPES.get(name.removeprefix(prefix))
    return None


class _Compiler:
    """Makes the rules and defaults of types, each once. Types may contain themselves.

    What a call makes is published when all of it is whole, because another thread may ask for the same type meanwhile.
    """

    def __init__(self) -> None:
        self._rules: dict[str, _Rules] = {}
        self._defaults: dict[str, _Defaults] = {}
        self._useful: dict[tuple[str, bool], bool] = {}

    def rules(self, name: str) -> _Rules:
        made = self._rules.get(name)
        if made is None:
            begun: dict[str, _Rules] = {}
            made = self._new_rules(name, begun)
            self._rules.update(begun)
        return made

    def defaults(self, name: str) -> _Defaults:
        made = self._defaults.get(name)
        if made is None:
            begun: dict[str, _Defaults] = {}
            made = self._new_defaults(name, begun)
            self._defaults.update(begun)
        return made

    def _new_rules(self, name: str, begun: dict[str, _Rules]) -> _Rules:
        made = self._rules.get(name) or begun.get(name)
        if made is None:
            made = begun[name] = _Rules()
            type_ = _type_of(name) or Type()
            made.required, made.whole = type_.required, type_.whole
            for field, (target, form) in _fields(name).items():
                rule = type_.fields.get(field)
                useful = target and self._reaches(target, rules=True, seen=frozenset())
                child = self._new_rules(target, begun) if useful else None
                if rule or child:
                    made.fields[field] = (rule, child, form)
        return made

    def _new_defaults(self, name: str, begun: dict[str, _Defaults]) -> _Defaults:
        made = self._defaults.get(name) or begun.get(name)
        if made is None:
            made = begun[name] = _Defaults()
            type_ = _type_of(name) or Type()
            made.values, made.fill = type_.defaults, type_.fill
            for field, (target, form) in _fields(name).items():
                if target and self._reaches(target, rules=False, seen=frozenset()):
                    made.fields[field] = (self._new_defaults(target, begun), form)
        return made

    def _reaches(self, name: str, *, rules: bool, seen: frozenset[str]) -> bool:
        """Test whether a type, or a type inside it, has rules (or defaults)."""
        known = self._useful.get((name, rules))
        if known is not None or name in seen:
            return bool(known)
        type_ = _type_of(name) or Type()
        own = (type_.required or type_.fields or type_.whole) if rules else (type_.defaults or type_.fill)
        found = bool(own) or any(
            self._reaches(target, rules=rules, seen=seen | {name}) for target, _ in _fields(name).values() if target
        )
        if not seen or found:
            self._useful[name, rules] = found
        return found


@cache
def _compiled() -> _Compiler:
    return _Compiler()


@cache
def _fields(name: str) -> dict[str, tuple[str, str]]:
    """Return the fields of a type: the name of the type that each contains, "" if none, and how it contains it."""
    node = builtin.components().schemas.get(name) or {}
    found = {}
    for field, inner in (node.get("properties") or {}).items():
        if "items" in inner:
            found[field] = (_target(inner["items"]), _LIST)
        elif isinstance(inner.get("additionalProperties"), dict):
            found[field] = (_target(inner["additionalProperties"]), _MAP)
        else:
            found[field] = (_target(inner), "")
    return found


def _target(node: Any) -> str:
    references = [node, *node.get("allOf", ())]
    for reference in references:
        if "$ref" in reference:
            return str(reference["$ref"]).removeprefix(REF_PREFIX)
    return ""

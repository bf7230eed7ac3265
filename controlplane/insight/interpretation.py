"""Answers Interpretations: what the rules of a kind give for an object, without storing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import Cause, Invalid
from controlplane.interpret.customized import Interpreters, Unanswered
from controlplane.interpret.interpreter import Interpreter
from controlplane.kind import KINDS
from controlplane.kinds import INTERPRETER_CUSTOMIZATION
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.interpretation import KIND, RESOURCE, Interpretation, InterpretationSpec, OperationResult
from controlplane.kinds.interpreter_customization import OPERATIONS, InterpreterCustomization
from controlplane.settings import Settings
from controlplane.wire.request import metadata_of

Document = dict[str, Any]
_FIELDS = {
    "Retain": "retain",
    "InterpretReplica": "replicas",
    "InterpretComponent": "components",
    "ReviseReplica": "revise",
    "InterpretStatus": "reflect",
    "AggregateStatus": "aggregate",
    "InterpretHealth": "healthy",
    "InterpretDependency": "dependencies",
}


def decoded(document: Document, *, settings: Settings, now: datetime) -> Interpretation:
    """Return the Interpretation in a document. Raises BadRequest, or Invalid with all causes."""
    metadata = metadata_of(document)
    metadata.setdefault("name", "unnamed")
    content = {**document, "metadata": metadata}
    content.pop("status", None)
    asked = admit_create(KIND, content, namespace="", settings=settings, now=now, uid="").object
    assert isinstance(asked, Interpretation), "admission returns objects of the given kind"
    causes = list(_causes(asked.spec))
    if causes:
        raise Invalid.of(RESOURCE.kind, asked.metadata.name, causes, group=RESOURCE.group)
    return asked


def draft(spec: InterpretationSpec, *, settings: Settings, now: datetime) -> InterpreterCustomization | None:
    """Return the customization of an Interpretation that counts as if it were stored; None: there is none.

    Raises Invalid if it would be refused.
    """
    if spec.customization is None:
        return None
    kind = KINDS[INTERPRETER_CUSTOMIZATION]
    metadata = {"name": "draft", **metadata_of(spec.customization)}
    document = {**spec.customization, "metadata": metadata}
    made = admit_create(kind, document, namespace="", settings=settings, now=now, uid="").object
    assert isinstance(made, InterpreterCustomization), "admission returns objects of the given kind"
    return made


def results(spec: InterpretationSpec, interpreters: Interpreters, *, now: datetime) -> tuple[OperationResult, ...]:
    """Return the result of each operation. Raises Unanswered with all questions to scripts and webhooks."""
    doc = spec.object or {}
    version, kind = str(doc.get("apiVersion", "")), str(doc.get("kind", ""))
    interpreter = interpreters.of(version, kind)
    found: list[OperationResult] = []
    missing: list[Any] = []
    for operation in spec.operations or _answerable(spec):
        rule = interpreters.rule_of(version, kind, operation)
        if getattr(interpreter, _FIELDS[operation]) is None:
            found.append(OperationResult(operation))
            continue
        try:
            found.append(OperationResult(operation, rule, _plain(_call(interpreter, operation, spec, now=now))))
        except Unanswered as error:
            missing += error.questions
        except ValueError as error:
            found.append(OperationResult(operation, rule, error=str(error)))
    if missing:
        raise Unanswered(missing)
    return tuple(found)


def _call(interpreter: Interpreter, operation: str, spec: InterpretationSpec, *, now: datetime) -> Any:
    rule: Callable[..., Any] = getattr(interpreter, _FIELDS[operation])
    match operation:
        case "Retain":
            return rule(spec.object, spec.observed)
        case "ReviseReplica":
            return rule(spec.object, spec.replicas)
        case "AggregateStatus":
            return rule(spec.object, [msgspec.convert(item, AggregatedStatusItem) for item in spec.items or ()], now)
        case "InterpretReplica":
            return rule(spec.object)._asdict()
        case "InterpretDependency":
            return [each._asdict() for each in rule(spec.object)]
    return rule(spec.object)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _answerable(spec: InterpretationSpec) -> Iterator[str]:
    """Yield the operations whose arguments are given."""
    given = {"Retain": spec.observed, "ReviseReplica": spec.replicas, "AggregateStatus": spec.items}
    return (operation for operation in OPERATIONS if operation not in given or given[operation] is not None)


def _causes(spec: InterpretationSpec) -> Iterator[Cause]:
    doc = spec.object
    if doc is None:
        yield required("spec.object", "give the object to interpret")
        return
    for field in ("apiVersion", "kind"):
        if not isinstance(doc.get(field), str) or not doc[field]:
            yield required(f"spec.object.{field}", "name the kind of the object")
    for index, operation in enumerate(spec.operations):
        if operation not in OPERATIONS:
            yield unsupported(f"spec.operations[{index}]", operation, OPERATIONS)
    for operation, field in (("Retain", "observed"), ("ReviseReplica", "replicas")):
        if operation in spec.operations and getattr(spec, field) is None:
            yield required(f"spec.{field}", f"{operation} needs it")
    for index, item in enumerate(spec.items or ()):
        try:
            msgspec.convert(item, AggregatedStatusItem)
        except msgspec.ValidationError as error:
            yield invalid(f"spec.items[{index}]", item, str(error))

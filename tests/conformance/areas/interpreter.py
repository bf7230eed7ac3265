"""What the kinds of Kubernetes itself mean: replicas, health, status, retention, dependencies, pruning."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane import interpret
from controlplane.interpret import prune, reflect
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.quantity import Quantity
from tests.conformance.compare import equivalent
from tests.conformance.documents import plain, typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    subject = given.get("object") or given["desired"]
    knows = interpret.of(subject["apiVersion"], subject["kind"])
    try:
        return _answer(given, knows)
    except ValueError as error:
        return {"error": str(error)}


def _answer(given: Document, knows: interpret.Interpreter) -> Document:
    doc = given.get("object")
    match given["operation"]:
        case "InterpretReplica":
            demand = _rule(knows.replicas)(doc)
            return {"replicas": demand.replicas, "replicaRequirements": plain(demand.requirements)}
        case "InterpretHealth":
            return {"healthy": _rule(knows.healthy)(doc)}
        case "InterpretStatus":
            return {"status": (knows.reflect or reflect.whole)(doc)}
        case "AggregateStatus":
            items = [typed(item, AggregatedStatusItem) for item in given["aggregatedStatus"] or ()]
            status = _rule(knows.aggregate)(doc, items, datetime.fromisoformat(given["now"]))
            return {"status": status}
        case "ReviseReplica":
            return {"object": _rule(knows.revise)(doc, given["replicas"])}
        case "Retain":
            return {"object": _rule(knows.retain)(given["desired"], given["observed"])}
        case "InterpretDependency":
            found = [_dependency(one) for one in _rule(knows.dependencies)(doc)]
            return {"dependencies": sorted(found, key=lambda one: (one["kind"], one["name"]))}
        case "Prune":
            pruned = prune.common(doc)
            return {"object": pruned if knows.prune is None else knows.prune(pruned)}
    raise AssertionError(f"unknown operation {given['operation']}")


def _rule(rule: Any) -> Any:
    if rule is None:
        raise ValueError("the kind has no rule for this operation")
    return rule


def _dependency(one: interpret.Dependency) -> Document:
    return {
        "apiVersion": one.api_version,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "labelSelector": one.label_selector,
    }


def agree(expect: Document, result: Document) -> bool:
    if "error" in expect or "error" in result:
        return "error" in expect and "error" in result
    # Whether the original returned the very same object says nothing about what the status is.
    wanted = {key: value for key, value in expect.items() if key != "unchanged"}
    return equivalent(_measured(wanted), _measured(result))


def _measured(value: Any) -> Any:
    """Return a document with quantities as numbers: they are compared by value."""
    if isinstance(value, list):
        return [_measured(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: Quantity.of(text).nano for name, text in one.items()}
        if key in ("resourceRequest", "requests", "limits", "overhead") and isinstance(one, dict)
        else _measured(one)
        for key, one in value.items()
    }


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Return which deliberate difference explains a disagreement."""
    operation = given["operation"]
    doc: Document = given.get("object") or {}
    spec: Document = doc.get("spec") or {}
    counted = "parallelism" if doc.get("kind") == "Job" else "replicas"
    if operation in ("InterpretReplica", "ReviseReplica") and counted not in spec:
        return f"{counted} left out is 1: nobody defaults templates before us"
    if operation == "InterpretStatus" and "error" in expect:
        return "a status without the template's generation is carried back all the same"
    if operation == "InterpretStatus" and doc["kind"] == "StatefulSet":
        return "a StatefulSet's observedGeneration is carried back, so that its rollout can be followed"
    if operation == "AggregateStatus" and given["aggregatedStatus"] is None and doc["kind"] == "Pod":
        return "no list and an empty list are the same"
    if operation == "InterpretDependency" and doc["kind"] == "Ingress" and "error" in expect:
        return "an Ingress may have TLS without a Secret of its own"
    return None

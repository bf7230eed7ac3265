"""What the kinds of Kubernetes itself mean: replicas, health, status, retention, dependencies, pruning."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane import interpret
from controlplane.apimachinery.names import TEMPLATE_GENERATION_ANNOTATION
from controlplane.apimachinery.quantities import Quantity
from controlplane.interpret import prune, reflect
from controlplane.kinds.binding import AggregatedStatusItem
from tests.conformance.compare import equivalent
from tests.conformance.documents import plain, typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    subject = given.get("object") or given["desired"]
    knows = interpret.interpreter_for(subject["apiVersion"], subject["kind"])
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
            return {"status": (knows.reflect or reflect.whole_status)(doc)}
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
            pruned = prune.without_own_metadata(doc)
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
    """Return which deliberate difference explains a disagreement: what else is different fails."""
    rule = ON_PURPOSE.get(given["operation"])
    return None if rule is None else rule(given, expect, result)


def _left_out(given: Document, expect: Document, result: Document) -> str | None:
    """The original finds no replicas where none are written, and then sets none."""
    doc: Document = given["object"]
    counted = "parallelism" if doc["kind"] == "Job" else "replicas"
    if counted in (doc.get("spec") or {}):
        return None
    unset = {**result, "replicas": 0} if given["operation"] == "InterpretReplica" else {"object": doc}
    return f"{counted} left out is 1: nothing defaults templates before us" if agree(expect, unset) else None


def _of_no_generation(given: Document, expect: Document, result: Document) -> str | None:
    doc: Document = given["object"]
    made_from = (doc["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION_ANNOTATION, "")
    if "error" in expect and "error" not in result and doc["kind"] in FOLLOWED and not made_from.isdecimal():
        return "a status without the template's generation is carried back all the same"
    reported = {key: value for key, value in (result.get("status") or {}).items() if key != "observedGeneration"}
    if doc["kind"] == "StatefulSet" and agree(expect, {"status": reported}):
        return "a StatefulSet's observedGeneration is carried back, so that its rollout can be followed"
    return None


def _aggregated(given: Document, expect: Document, result: Document) -> str | None:
    doc: Document = given["object"]
    old, items = doc.get("status") or {}, given["aggregatedStatus"]
    if doc["kind"] == "Pod" and items is None and equivalent(expect["status"], old):
        return "no list and an empty list are the same"
    generation = doc["metadata"].get("generation") or 0
    sent = ((item.get("status") or {}).get("resourceTemplateGeneration") for item in items or ())
    behind = any(made_from is not None and made_from < generation for made_from in sent)
    seen = {**(result.get("status") or {}), "observedGeneration": generation}
    if doc["kind"] == "StatefulSet" and behind and agree(expect, {"status": seen}):
        return "a StatefulSet is seen once every member was sent it as it is now, as other workloads are"
    return None


def _without_secret(given: Document, expect: Document, result: Document) -> str | None:
    doc: Document = given["object"]
    own = any(not one.get("secretName") for one in (doc.get("spec") or {}).get("tls") or ())
    if doc["kind"] == "Ingress" and own and "error" in expect and "error" not in result:
        return "an Ingress may have TLS without a Secret of its own"
    return None


def _of_one_cluster(given: Document, expect: Document, result: Document) -> str | None:
    """The original sends the uid that the claim of a volume has in the cluster that it was read from."""
    spec = (expect.get("object") or {}).get("spec") or {}
    named = {
        name: value for name, value in (spec.get("claimRef") or {}).items() if name not in ("uid", "resourceVersion")
    }
    if given["object"]["kind"] == "PersistentVolume" and result["object"]["spec"] == {**spec, "claimRef": named}:
        return "the claim of a volume has another uid in each cluster"
    return None


FOLLOWED = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
ON_PURPOSE = {
    "InterpretReplica": _left_out,
    "ReviseReplica": _left_out,
    "InterpretStatus": _of_no_generation,
    "AggregateStatus": _aggregated,
    "InterpretDependency": _without_secret,
    "Prune": _of_one_cluster,
}

"""What kinds of other projects mean: the same operations as for the kinds of Kubernetes, and components."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from controlplane import interpret
from controlplane.kinds.binding import AggregatedStatusItem
from tests.conformance.areas import interpreter
from tests.conformance.documents import plain, typed

Document = dict[str, Any]
NOW = "2026-01-02T03:04:05Z"


def run(given: Document) -> Document:
    subject = given.get("object") or given.get("desired") or given["observed"]
    knows = interpret.interpreter_for(subject["apiVersion"], subject["kind"])
    try:
        return _answer(given, knows, subject)
    except ValueError as error:
        return {"error": str(error)}


def _answer(given: Document, knows: interpret.Interpreter, subject: Document) -> Document:
    match given["operation"]:
        case "InterpretComponent":
            found = sorted(plain(_rule(knows.components)(subject)), key=lambda component: component["name"])
            return {"components": found}
        case "AggregateStatus":
            items = [
                typed({"clusterName": "", **item}, AggregatedStatusItem) for item in given["aggregatedStatus"] or ()
            ]
            status = _rule(knows.aggregate)(subject, items, datetime.fromisoformat(NOW))
            return {"status": json.loads(json.dumps(status).replace(NOW, "<now>"))}
        case "InterpretDependency":
            found = [interpreter._dependency(entry) for entry in _rule(knows.dependencies)(subject)]
            return {"dependencies": sorted(found, key=lambda entry: (entry["kind"], entry["name"]))}
    return interpreter._answer({**given, "object": subject}, knows)


def _rule(rule: Any) -> Any:
    if rule is None:
        raise ValueError("the kind has no rule for this operation")
    return rule


agree = interpreter.agree


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Return which deliberate difference explains a disagreement; None: nothing does, so the vector fails."""
    subject = given.get("object") or given.get("desired") or given["observed"]
    failed = str(expect.get("error") or "")
    if "call a non-function object" in failed:
        return "a script of one kind cannot overwrite functions of Lua for all others"
    reason = _LENIENT.get((subject["kind"], given["operation"]))
    return reason if failed and reason and "error" not in result else None


_LENIENT = {
    **{
        (kind, "InterpretReplica"): "replicas left out is 1: nothing defaults templates before us"
        for kind in ("CloneSet", "StatefulSet", "UnitedDeployment")
    },
    ("OCIRepository", "InterpretDependency"): "an OCIRepository may have no ServiceAccount",
    ("SidecarSet", "AggregateStatus"): "an object on no cluster has a status as well",
    ("SparkApplication", "AggregateStatus"): "a member without a known state does not hide the others",
    ("FlinkDeployment", "InterpretHealth"): "a job without a status is not healthy",
}

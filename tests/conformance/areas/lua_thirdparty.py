"""What kinds of other projects mean: the same operations as for the kinds of Kubernetes, and components."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from controlplane import interpret
from controlplane.interpret.thirdparty import kruise
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
    if failed:
        return reason if reason and "error" not in result else None
    if "error" in result:
        return None
    if given["operation"] == "AggregateStatus":
        return _aggregated(given, expect, result)
    if given["operation"] == "ReviseReplica" and subject["kind"] == "RayService" and _fewer_than_none(expect):
        return "no group of a RayService gets fewer than 0 workers"
    if given["operation"] == "InterpretStatus" and subject["kind"] == "HelmChart":
        unseen = {name: value for name, value in result["status"].items() if name != "observedGeneration"}
        if agree(expect, {"status": unseen}):
            return "a HelmChart's observedGeneration is carried back, so that its rollout can be followed"
    return None


def _fewer_than_none(expect: Document) -> bool:
    groups = expect["object"]["spec"]["rayClusterConfig"]["workerGroupSpecs"]
    return any(group.get("replicas", 0) < 0 for group in groups)


def _aggregated(given: Document, expect: Document, result: Document) -> str | None:
    """The original counts failures that it counted before, and a member without a result like the one before it."""
    subject, status = given["object"], result["status"]
    old, items = subject.get("status") or {}, given["aggregatedStatus"] or []
    if subject["kind"] == "HelmRelease" and items:
        summed = {field: status[field] + old[field] for field in _FAILURES if field in status}
        if agree(expect, {"status": {**status, **summed}}):
            return "failures of a HelmRelease are those of its members, not added to the last sum"
    if subject["kind"] == "BroadcastJob":
        again = run({**given, "aggregatedStatus": _with_the_result_before(items)})["status"]
        if agree(expect, {"status": {**status, "conditions": again.get("conditions")}}):
            return "a member that has not ended is not counted like the one before it"
    kept = [one if one not in (old.get("conditions") or ()) else {**one, **_TIMES} for one in _conditions(status)]
    if agree(expect, {"status": {**status, "conditions": kept}}):
        return "a condition that says the same keeps its times"
    return None


def _with_the_result_before(items: list[Document]) -> list[Document]:
    made, ends = [], list[Document]()
    for item in items:
        status = item.get("status") or {}
        ends = status.get("conditions") if kruise._ended(status) else ends
        made.append({**item, "status": {**status, "conditions": ends}})
    return made


def _conditions(status: Document) -> list[Document]:
    return status.get("conditions") or []


_FAILURES = ("failures", "upgradeFailures", "installFailures")
_TIMES = {"lastProbeTime": "<now>", "lastTransitionTime": "<now>"}
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

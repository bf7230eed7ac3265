"""Resource models: how they are stored and refused, and what nodes and pods make of them."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.estimate.models import standardise, violations
from controlplane.estimate.summary import summarise
from controlplane.kinds.cluster import ResourceModel
from controlplane.quantity import parse

Document = dict[str, Any]


def run(given: Document) -> Document:
    models = msgspec.convert(given.get("resourceModels") or (), tuple[ResourceModel, ...])
    if given["op"] == "createCluster":
        stored = standardise(models)
        return {"models": _models(stored), "errors": [one.message for one in violations(stored)]}
    summary = summarise(given.get("nodes") or (), given.get("pods") or (), models)
    return {
        "grades": {one.grade: one.count for one in summary.allocatable_modelings},
        "summary": {
            part: {name: parse(text).nano for name, text in getattr(summary, part).items()}
            for part in ("allocatable", "allocating", "allocated")
        },
    }


def _models(models: tuple[ResourceModel, ...]) -> list[Any]:
    return [(one.grade, [(r.name, parse(r.min).nano, parse(r.max).nano) for r in one.ranges]) for one in models]


def agree(expect: Document, result: Document) -> bool:
    if "models" in result:
        stored = _models(msgspec.convert(expect["resourceModels"] or (), tuple[ResourceModel, ...]))
        return bool(expect["errors"]) == bool(result["errors"]) and stored == result["models"]
    summary = expect.get("resourceSummary") or {}
    return _grades(expect) == result["grades"] and all(
        {name: parse(text).nano for name, text in (summary.get(part) or {}).items()} == amounts
        for part, amounts in result["summary"].items()
    )


def _grades(expect: Document) -> dict[int, int]:
    return {one["grade"]: one.get("count", 0) for one in expect.get("allocatableModelings") or ()}


def differs(given: Document, expect: Document, result: Document) -> str | None:
    if given["op"] == "createCluster":
        contiguous = [one["detail"] for one in expect["errors"]] == [
            "Model intervals for resources must be contiguous and non-overlapping"
        ]
        return "D16: bounds are compared by value, not by how they are written" if contiguous else None
    if _grades(expect) == result["grades"] and _taken_as_the_original_adds(given, expect):
        return "the original compares an init container with the sum of all pods so far"
    if any(_slots(node, given.get("pods") or ()) <= 0 for node in given["nodes"]):
        return "the original stops grading at the first full node, and counts nodes without any slot"
    return None


def _slots(node: Document, pods: list[Document]) -> int:
    name = node["metadata"]["name"]
    on_it = [
        one
        for one in pods
        if one["spec"].get("nodeName") == name and one["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    return int(node["status"]["allocatable"].get("pods", "0")) - len(on_it)


def _taken_as_the_original_adds(given: Document, expect: Document) -> bool:
    summary = expect.get("resourceSummary") or {}
    sums: dict[str, dict[str, int]] = {"allocating": {}, "allocated": {}}
    for pod in given.get("pods") or ():
        bound = bool(pod["spec"].get("nodeName"))
        if bound and pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        total = sums["allocated" if bound else "allocating"]
        spec = pod["spec"]
        for container in spec.get("containers") or ():
            _add(total, (container.get("resources") or {}).get("requests"))
        for container in spec.get("initContainers") or ():
            for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
                total[name] = max(total.get(name, 0), parse(text).nano)
        _add(total, spec.get("overhead"))
        _add(total, {"pods": "1"})
    return all(
        {name: parse(text).nano for name, text in (summary.get(part) or {}).items()} == amounts
        for part, amounts in sums.items()
    )


def _add(total: dict[str, int], amounts: dict[str, str] | None) -> None:
    for name, text in (amounts or {}).items():
        total[name] = total.get(name, 0) + parse(text).nano

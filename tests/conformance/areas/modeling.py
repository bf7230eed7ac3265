"""Resource models: how they are stored and refused, and what nodes and pods make of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from controlplane.apimachinery.quantities import Quantity, parse
from controlplane.estimate.resource_models import grade_of, standardise, violations
from controlplane.estimate.summary import summarise
from controlplane.kinds.cluster import ResourceModel
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    models = typed(given.get("resourceModels") or (), tuple[ResourceModel, ...])
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


def _stored(expect: Document) -> list[Any]:
    return _models(typed(expect["resourceModels"] or (), tuple[ResourceModel, ...]))


def agree(expect: Document, result: Document) -> bool:
    if "models" in result:
        return bool(expect["errors"]) == bool(result["errors"]) and _stored(expect) == result["models"]
    summary = expect.get("resourceSummary") or {}
    return _grades(expect) == result["grades"] and all(
        {name: parse(text).nano for name, text in (summary.get(part) or {}).items()} == amounts
        for part, amounts in result["summary"].items()
    )


def _grades(expect: Document) -> dict[int, int]:
    return {one["grade"]: one.get("count", 0) for one in expect.get("allocatableModelings") or ()}


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Two faults of the original are worked out again, so that whatever else is different fails."""
    if given["op"] == "createCluster":
        found = [one["detail"] for one in expect["errors"]]
        alone = found == [CONTIGUOUS] and not result["errors"] and _stored(expect) == result["models"]
        return BY_VALUE if alone and written_in_two_ways(given["resourceModels"]) else None
    summary = expect.get("resourceSummary") or {}
    added = {part: _numbers(summary.get(part)) for part in result["summary"]}
    if added not in (result["summary"], result["summary"] | _taken_as_the_original_adds(given)):
        return None
    if _grades(expect) == result["grades"]:
        return INIT_CONTAINERS
    if _grades(expect) != _graded_as_the_original_does(given):
        return None
    return FULL_NODES if any(_slots(node, given) <= 0 for node in given["nodes"]) else INIT_CONTAINERS


BY_VALUE = "[resource-models] bounds are compared by value, not by how they are written"
CONTIGUOUS = "Model intervals for resources must be contiguous and non-overlapping"
INIT_CONTAINERS = "the original compares an init container with the sum of all pods so far"
FULL_NODES = "the original stops grading at the first full node, and counts nodes without any slot"


def written_in_two_ways(models: Sequence[Document]) -> bool:
    """Test whether bounds are written in two ways, or in one the original never finds equal to anything."""
    ordered = sorted(models, key=lambda one: int(one["grade"]))
    return any(
        before["max"] != now["min"] or _slow(now["min"])
        for low, high in itertools.pairwise(ordered)
        for before, now in zip(low["ranges"], high["ranges"], strict=False)
    )


_BINARY = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?([KMGTPE])i")
_FAST_DIGITS = 14


def _slow(text: str) -> bool:
    """Test whether an amount takes the path of the original that finds nothing equal: binary units with a fraction, or
    with more digits than it multiplies in 64 bits; a unit counts as three digits."""
    written = _BINARY.fullmatch(text)
    if written is None:
        return False
    digits, fraction, unit = written.groups(default="")
    return bool(fraction) or max(1, len(digits)) + 3 * ("KMGTPE".index(unit) + 1) > _FAST_DIGITS


def _numbers(amounts: dict[str, str] | None) -> dict[str, int]:
    return {name: parse(text).nano for name, text in (amounts or {}).items()}


def _on_nodes(given: Document) -> list[Document]:
    """Return the pods that take room on a node."""
    return [
        one
        for one in given.get("pods") or ()
        if one["spec"].get("nodeName") and one["status"].get("phase") not in ("Succeeded", "Failed")
    ]


def _slots(node: Document, given: Document) -> int:
    on_it = [one for one in _on_nodes(given) if one["spec"]["nodeName"] == node["metadata"]["name"]]
    return int(node["status"]["allocatable"].get("pods", "0")) - len(on_it)


def _taken_as_the_original_adds(given: Document) -> dict[str, dict[str, int]]:
    waiting = [one for one in given.get("pods") or () if not one["spec"].get("nodeName")]
    return {"allocating": _sum(waiting), "allocated": _sum(_on_nodes(given))}


def _sum(pods: list[Document]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        spec = pod["spec"]
        for container in spec.get("containers") or ():
            _add(total, (container.get("resources") or {}).get("requests"))
        for container in spec.get("initContainers") or ():
            for name, nano in _numbers((container.get("resources") or {}).get("requests")).items():
                total[name] = max(total.get(name, 0), nano)
        _add(total, spec.get("overhead"))
        _add(total, {"pods": "1"})
    return total


def _add(total: dict[str, int], amounts: dict[str, str] | None) -> None:
    for name, nano in _numbers(amounts).items():
        total[name] = total.get(name, 0) + nano


def _graded_as_the_original_does(given: Document) -> dict[int, int]:
    models = typed(given.get("resourceModels") or (), tuple[ResourceModel, ...])
    counts = [0] * len(models)
    for node in given["nodes"]:
        free = _numbers(node["status"]["allocatable"])
        pods = [one for one in _on_nodes(given) if one["spec"]["nodeName"] == node["metadata"]["name"]]
        if pods and _slots(node, given) <= 0:
            break
        for name, nano in _sum(pods).items():
            if name in free:
                free[name] -= nano
        grade = grade_of(models, {name: Quantity(nano) for name, nano in free.items()})
        if grade >= 0:
            counts[grade] += 1
    return {model.grade: count for model, count in zip(models, counts, strict=True)}

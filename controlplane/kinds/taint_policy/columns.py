"""The columns that `kubectl get clustertaintpolicies` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.wire.resource import Column

Document = dict[str, Any]


def target(doc: Document, now: Any) -> str:
    """Return the clusters that a policy selects; "all": every cluster."""
    spec = doc.get("spec", {})
    affinity = spec.get("targetCluster") or spec.get("targetClusters") or {}
    parts = [",".join(affinity.get("clusterNames", ()))]
    if excluded := affinity.get("exclude"):
        parts.append(f"not {','.join(excluded)}")
    labels = affinity.get("labelSelector") or {}
    parts += [f"{key}={value}" for key, value in labels.get("matchLabels", {}).items()]
    fields = affinity.get("fieldSelector") or {}
    terms = [*labels.get("matchExpressions", ()), *fields.get("matchExpressions", ())]
    for term in terms:
        parts.append(f"{term.get('key')} {term.get('operator')} {_bracketed(term.get('values', ()))}".rstrip())
    return "; ".join(filter(None, parts)) or "all"


def conditions(doc: Document, now: Any) -> str:
    """Return the conditions under which a policy adds its taints, and removes them if it has no windows."""
    spec = doc.get("spec", {})
    adds, removes = _terms(spec.get("addOnConditions", ())), _terms(spec.get("removeOnConditions", ()))
    if spec.get("taints"):
        return "; ".join((f"add: {adds or 'never'}", f"remove: {removes or 'never'}"))
    return _terms(spec.get("matchConditions", ())) or "always"


def taints(doc: Document, now: Any) -> str:
    """Return the taints of a policy as key:effect."""
    return ",".join(f"{taint.get('key')}:{taint.get('effect')}" for taint in _taints(doc))


def windows(doc: Document, now: Any) -> str:
    """Return the windows of each taint: "300s/180s" for adding and removing."""
    spec = doc.get("spec", {})
    windows = [
        f"{taint.get('addOnMatchSeconds', 300)}s/{taint.get('removeOnMismatchSeconds', 180)}s"
        for taint in spec.get("taintsToAdd", ())
    ]
    return ",".join(windows)


def _taints(doc: Document) -> list[Document]:
    spec = doc.get("spec", {})
    return [*spec.get("taintsToAdd", ()), *spec.get("taints", ())]


def _terms(conditions: Iterable[Document]) -> str:
    return ", ".join(
        f"{condition.get('conditionType')} {condition.get('operator')} {_bracketed(condition.get('statusValues', ()))}"
        for condition in conditions
    )


def _bracketed(values: Iterable[str]) -> str:
    joined = ",".join(values)
    return f"[{joined}]" if joined else ""


COLUMNS = (
    Column("Target", target, description="Clusters that the policy selects."),
    Column("Conditions", conditions, description="Conditions of clusters under which taints are added."),
    Column("Taints", taints, description="Taints that the policy adds."),
    Column(
        "Windows",
        windows,
        description="Seconds for which conditions have to match, and not to match, by taint.",
    ),
)

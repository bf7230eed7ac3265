"""The steps of a failover, from the change log: taints, eviction, new copy, removal of the old copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from controlplane import kinds
from controlplane.apimachinery.names import BINDING_ANNOTATION, cluster_of_execution_namespace
from controlplane.engine.state import Change
from controlplane.kinds.rows import Eviction

Document = dict[str, Any]


class Step(NamedTuple):
    """One step. `what`: a sentence for people. `word` and `cluster`: by which code finds the step."""

    at: datetime
    word: str
    cluster: str
    what: str


def steps_of(changes: Iterable[Change], *, binding: str) -> list[Step]:
    """Return the steps of all clusters and of one binding ("namespace/name"), in the order of the changes."""
    steps: list[Step] = []
    namespace, _, name = binding.partition("/")
    for change in changes:
        new, old = _document(change.document), _document(change.old_document)
        if change.type == "DELETED":
            new, old = {}, old or new
        if change.ref.kind == kinds.CLUSTER:
            steps += (Step(change.at, *item) for item in _cluster(change.ref.name, old, new))
        elif change.ref.kind in kinds.BINDINGS and (change.ref.namespace, change.ref.name) == (namespace, name):
            steps += (Step(change.at, *entry) for entry in _binding(old, new))
        elif change.ref.kind == kinds.WORK and _owner(new or old).endswith(f":{binding}"):
            cluster = cluster_of_execution_namespace(change.ref.namespace)
            steps += (Step(change.at, *one) for one in _work(cluster, old, new))
    return steps


def queued(rows: Iterable[Eviction]) -> list[Step]:
    """Return one step for each copy that entered the eviction queue."""
    return [
        Step(row.queued_at, "queued", row.cluster, f"the eviction of the copy on {row.cluster} is queued")
        for row in rows
        if row.queued_at is not None and (row.due_at is not None or row.ended_at is not None)
    ]


def _document(raw: bytes | None) -> Document:
    document: Document = orjson.loads(raw) if raw else {}
    return document


def _owner(work: Document) -> str:
    owner: str = work.get("metadata", {}).get("annotations", {}).get(BINDING_ANNOTATION, "")
    return owner


def condition_of(doc: Document, name: str, field: str = "status") -> str:
    """Return the status of a condition, or another field of it. "": the object has no such condition."""
    conditions = doc.get("status", {}).get("conditions", ())
    return next((condition.get(field, "") for condition in conditions if condition.get("type") == name), "")


def _cluster(name: str, old: Document, new: Document) -> Iterator[tuple[str, str, str]]:
    before, after = condition_of(old, "Ready"), condition_of(new, "Ready")
    if before != after and after:
        yield "ready" if after == "True" else "not ready", name, f"{name} is Ready={after}"
    taints_before, taints_after = _taints(old), _taints(new)
    for taint in sorted(taints_after - taints_before):
        yield f"taint {taint[1]}", name, f"{name} gets the taint {taint[0]}:{taint[1]}"
    for taint in sorted(taints_before - taints_after):
        yield f"no taint {taint[1]}", name, f"the taint {taint[0]}:{taint[1]} of {name} is removed"


def _taints(doc: Document) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in doc.get("spec", {}).get("taints", ())}


def _binding(old: Document, new: Document) -> Iterator[tuple[str, str, str]]:
    tasks_before, tasks_after = _tasks(old), _tasks(new)
    for cluster in sorted(tasks_after - tasks_before):
        yield "evicted", cluster, f"evicted from {cluster}; the old copy stays until the others are healthy"
    before, after = targets(old), targets(new)
    if set(after) - set(before) or any(after[item] != before[item] for item in after if item in before):
        yield "scheduled", "", f"scheduled to {shown(after)}"
    for cluster in sorted(tasks_before - tasks_after):
        yield "cleared", cluster, f"all copies are healthy: the eviction from {cluster} is complete"
    if not before and not after and not old:
        yield "claimed", "", "the policy claims the workload"


def _tasks(doc: Document) -> set[str]:
    return {
        graceful_eviction_task["fromCluster"]
        for graceful_eviction_task in doc.get("spec", {}).get("gracefulEvictionTasks", ())
    }


def targets(binding: Document) -> dict[str, int]:
    """Return the replicas of a binding by cluster."""
    return {cluster["name"]: cluster.get("replicas", 0) for cluster in binding.get("spec", {}).get("clusters", ())}


def shown(placed: dict[str, int]) -> str:
    """Return a placement as text, for example "member1:2, member3:2"."""
    return ", ".join(f"{name}:{replicas}" for name, replicas in sorted(placed.items())) or "no cluster"


def _work(cluster: str, old: Document, new: Document) -> Iterator[tuple[str, str, str]]:
    if not old:
        yield "work", cluster, f"a Work for {cluster} is created"
    if not new:
        yield "work gone", cluster, f"the Work for {cluster} is gone"
        return
    if old and _stamp(new) and not _stamp(old):
        yield "removed", cluster, f"the removal of the copy on {cluster} begins"
    if condition_of(old, "Applied") != "True" and condition_of(new, "Applied") == "True":
        yield "applied", cluster, f"the manifest is applied to {cluster}"
    before, after = health(old), health(new)
    if before != after and after == ("Healthy", replicas(new), replicas(new)):
        yield "healthy", cluster, f"{cluster} runs {after[1]} healthy replica{'s' if after[1] != 1 else ''}"


def _stamp(doc: Document) -> str:
    timestamp: str = doc.get("metadata", {}).get("deletionTimestamp", "")
    return timestamp


def replicas(work: Document) -> int:
    """Return the number of replicas in the manifest of a Work. 0: it has no manifest."""
    manifests = work.get("spec", {}).get("workload", {}).get("manifests", ())
    return int(manifests[0].get("spec", {}).get("replicas", 1)) if manifests else 0


def health(work: Document) -> tuple[str, int, int]:
    """Return what the member reported for a Work: health, ready replicas, replicas. ("", 0, 0): no report yet."""
    reports = work.get("status", {}).get("manifestStatuses", ())
    if not reports:
        return "", 0, 0
    status = reports[0].get("status") or {}
    return reports[0].get("health", ""), status.get("readyReplicas", 0), status.get("replicas", 0)

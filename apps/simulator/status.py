"""The status of workloads, computed from their pods."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]


class PodCounts(msgspec.Struct, frozen=True):
    """Counts of the pods of a workload. `current` are the pods of its newest template."""

    wanted: int
    total: int
    current: int
    current_ready: int
    ready: int
    succeeded: int = 0


def deployment(document: Document, counts: PodCounts, *, now: str) -> Document:
    """Return the status of a Deployment or ReplicaSet; counts of zero are left out, as in kube-apiserver."""
    done = counts.current_ready >= counts.wanted
    status = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "replicas": counts.total,
        "updatedReplicas": counts.current,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.ready,
        "unavailableReplicas": max(0, counts.wanted - counts.ready),
    }
    enough = counts.ready >= counts.wanted
    available = ("True", "MinimumReplicasAvailable") if enough else ("False", "MinimumReplicasUnavailable")
    progress = ("True", "NewReplicaSetAvailable" if done else "ReplicaSetUpdated")
    made = {key: value for key, value in status.items() if value}
    made["conditions"] = conditions(document, {"Available": available, "Progressing": progress}, now=now)
    return made


def replica_set(document: Document, counts: PodCounts, *, now: str) -> Document:
    """Return the status of a ReplicaSet."""
    status: Document = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "replicas": counts.total,
        "fullyLabeledReplicas": counts.total,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.ready,
    }
    return {key: value for key, value in status.items() if value or key == "replicas"}


def stateful_set(document: Document, counts: PodCounts, *, now: str) -> Document:
    """Return the status of a StatefulSet."""
    generation = document["metadata"].get("generation", 1)
    revision = f"{document['metadata']['name']}-{generation}"
    status: Document = {
        "observedGeneration": generation,
        "replicas": counts.total,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.ready,
        "currentReplicas": counts.current,
        "updatedReplicas": counts.current,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    return {key: value for key, value in status.items() if value or key in ("replicas", "availableReplicas")}


def daemon_set(document: Document, counts: PodCounts, *, now: str) -> Document:
    """Return the status of a DaemonSet."""
    status: Document = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "currentNumberScheduled": counts.total,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": counts.wanted,
        "numberReady": counts.ready,
        "updatedNumberScheduled": counts.current,
        "numberAvailable": counts.ready,
    }
    if counts.wanted > counts.ready:
        status["numberUnavailable"] = counts.wanted - counts.ready
    return status


def job(document: Document, counts: PodCounts, *, now: str) -> Document:
    """Return the status of a Job."""
    before = document.get("status") or {}
    active = counts.total - counts.succeeded
    status: Document = {"startTime": before.get("startTime", now), "active": active, "ready": counts.ready}
    status |= {"succeeded": counts.succeeded, "uncountedTerminatedPods": {}}
    if counts.succeeded >= counts.wanted:
        status["completionTime"] = before.get("completionTime", now)
        status["conditions"] = conditions(document, {"Complete": ("True", "CompletionsReached")}, now=now)
    return {key: value for key, value in status.items() if value or key in ("ready", "uncountedTerminatedPods")}


def conditions(document: Document, wanted: dict[str, tuple[str, str]], *, now: str) -> list[Document]:
    """Return conditions from (status, reason) by type. Their times change only if the status or reason changes."""
    before = {condition["type"]: condition for condition in (document.get("status") or {}).get("conditions") or ()}
    result = []
    for kind, (status, reason) in wanted.items():
        old = before.get(kind, {})
        same = old.get("status") == status
        result.append(
            {
                "type": kind,
                "status": status,
                "lastUpdateTime": old["lastUpdateTime"] if same and old.get("reason") == reason else now,
                "lastTransitionTime": old["lastTransitionTime"] if same else now,
                "reason": reason,
                "message": "",
            }
        )
    return result

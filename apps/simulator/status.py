"""The status a controller reports of a workload, from the pods it has."""

from __future__ import annotations

from typing import Any

import msgspec

Document = dict[str, Any]


class Tally(msgspec.Struct, frozen=True):
    """How the pods of a workload stand; `current` are those of its newest template."""

    wanted: int
    total: int
    current: int
    current_ready: int
    ready: int
    succeeded: int = 0


def deployment(document: Document, tally: Tally, *, now: str) -> Document:
    """Return the status of a Deployment or ReplicaSet; counts of zero are left out, as the API server does."""
    done = tally.current_ready >= tally.wanted
    status = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "replicas": tally.total,
        "updatedReplicas": tally.current,
        "readyReplicas": tally.ready,
        "availableReplicas": tally.ready,
        "unavailableReplicas": max(0, tally.wanted - tally.ready),
    }
    enough = tally.ready >= tally.wanted
    available = ("True", "MinimumReplicasAvailable") if enough else ("False", "MinimumReplicasUnavailable")
    progress = ("True", "NewReplicaSetAvailable" if done else "ReplicaSetUpdated")
    made = {key: value for key, value in status.items() if value}
    made["conditions"] = conditions(document, {"Available": available, "Progressing": progress}, now=now)
    return made


def replica_set(document: Document, tally: Tally, *, now: str) -> Document:
    """Return the status of a ReplicaSet."""
    status: Document = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "replicas": tally.total,
        "fullyLabeledReplicas": tally.total,
        "readyReplicas": tally.ready,
        "availableReplicas": tally.ready,
    }
    return {key: value for key, value in status.items() if value or key == "replicas"}


def stateful_set(document: Document, tally: Tally, *, now: str) -> Document:
    """Return the status of a StatefulSet."""
    generation = document["metadata"].get("generation", 1)
    revision = f"{document['metadata']['name']}-{generation}"
    status: Document = {
        "observedGeneration": generation,
        "replicas": tally.total,
        "readyReplicas": tally.ready,
        "availableReplicas": tally.ready,
        "currentReplicas": tally.current,
        "updatedReplicas": tally.current,
        "currentRevision": revision,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    return {key: value for key, value in status.items() if value or key in ("replicas", "availableReplicas")}


def daemon_set(document: Document, tally: Tally, *, now: str) -> Document:
    """Return the status of a DaemonSet."""
    status: Document = {
        "observedGeneration": document["metadata"].get("generation", 1),
        "currentNumberScheduled": tally.total,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": tally.wanted,
        "numberReady": tally.ready,
        "updatedNumberScheduled": tally.current,
        "numberAvailable": tally.ready,
    }
    if tally.wanted > tally.ready:
        status["numberUnavailable"] = tally.wanted - tally.ready
    return status


def job(document: Document, tally: Tally, *, now: str) -> Document:
    """Return the status of a Job."""
    before = document.get("status") or {}
    active = tally.total - tally.succeeded
    status: Document = {"startTime": before.get("startTime", now), "active": active, "ready": tally.ready}
    status |= {"succeeded": tally.succeeded, "uncountedTerminatedPods": {}}
    if tally.succeeded >= tally.wanted:
        status["completionTime"] = before.get("completionTime", now)
        status["conditions"] = conditions(document, {"Complete": ("True", "CompletionsReached")}, now=now)
    return {key: value for key, value in status.items() if value or key in ("ready", "uncountedTerminatedPods")}


def conditions(document: Document, wanted: dict[str, tuple[str, str]], *, now: str) -> list[Document]:
    """Return conditions by type from (status, reason); times change only with what they are the times of."""
    before = {one["type"]: one for one in (document.get("status") or {}).get("conditions") or ()}
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

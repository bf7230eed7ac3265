"""The Pods of a member: how they are made for a workload, and their status from Pending to Running."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import orjson

Document = dict[str, Any]

HASH = "pod-template-hash"


def template_hash(template: Document) -> str:
    """Return the hash of a pod template, which identifies its pods."""
    return hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).hexdigest()[:10]


def pod(owner: Document, template: Document, *, name: str, mark: str, now: str) -> Document:
    """Return a new pod of a workload that has no node yet."""
    metadata = template.get("metadata") or {}
    made: Document = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "uid": str(uuid.uuid4()),
        "creationTimestamp": now,
        "labels": {**(metadata.get("labels") or {}), HASH: mark},
        "ownerReferences": [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if metadata.get("annotations"):
        made["annotations"] = metadata["annotations"]
    spec = template.get("spec") or {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": spec, "status": {"phase": "Pending"}}


def pending(document: Document, *, why: str, now: str) -> Document:
    """Return the status of a pod that fits on no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    return {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": now}]}


def starting(document: Document, *, now: str) -> Document:
    """Return the status of a pod that was scheduled to a node and is starting."""
    return {
        "phase": "Pending",
        "startTime": now,
        "conditions": _conditions({"PodScheduled": True, "Initialized": True, "Ready": False}, now),
        "containerStatuses": [
            _container(container, is_ready=False, now=now) for container in document["spec"].get("containers") or ()
        ],
    }


def running(document: Document, *, is_ready: bool, address: str, now: str) -> Document:
    """Return the status of a pod whose containers run."""
    before = document.get("status") or {}
    statuses = {"PodScheduled": True, "Initialized": True, "ContainersReady": is_ready, "Ready": is_ready}
    return {
        "phase": "Running",
        "startTime": before.get("startTime", now),
        "podIP": address,
        "conditions": _conditions(statuses, now),
        "containerStatuses": [
            _container(container, is_ready=is_ready, now=now) for container in document["spec"].get("containers") or ()
        ],
    }


def succeeded(document: Document, *, now: str) -> Document:
    """Return the status of a pod that has succeeded."""
    before = document.get("status") or {}
    return {**before, "phase": "Succeeded", "conditions": _conditions({"PodScheduled": True, "Ready": False}, now)}


def is_ready(document: Document) -> bool:
    """Test whether the Ready condition of a pod is True."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def phase(document: Document) -> str:
    """Return the phase of a pod: Pending, Running, Succeeded or Failed."""
    return str((document.get("status") or {}).get("phase", "Pending"))


def owner_uid(document: Document) -> str:
    """Return the uid of the controller that owns a pod; "": it has none."""
    for reference in document["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def _conditions(statuses: dict[str, bool], now: str) -> list[Document]:
    return [
        {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": now}
        for kind, holds in statuses.items()
    ]


def _container(container: Document, *, is_ready: bool, now: str) -> Document:
    state = {"running": {"startedAt": now}} if is_ready else {"waiting": {"reason": "ContainerCreating"}}
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }

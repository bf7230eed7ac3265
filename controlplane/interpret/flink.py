"""The rules of FlinkDeployment (flink.apache.org/v1beta1): replicas, resource requests, health and status fields."""

from __future__ import annotations

import math
import re
from typing import Any

from controlplane.apimachinery.quantities import Quantity, QuantityError, parse
from controlplane.interpret.interpreter import Demand, Document
from controlplane.kinds.binding import NodeClaim, ReplicaRequirements

REPORTED = (
    *("clusterInfo", "error", "jobManagerDeploymentStatus", "jobStatus", "observedGeneration", "lifecycleState"),
    *("reconciliationStatus", "taskManager"),
)
"""Status fields that the Flink operator reports. They are copied from the member to the template."""

_FLINK_UNITS = re.compile(r"(\d+)\s*([kmgt])(?:b|(?:ibi|ebi)bytes)?")
_SUFFIXES = {"k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}
_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")


def replicas(doc: Document) -> Demand:
    """Return the number of job managers and task managers together, with one resource request for all of them.

    The request for cpu, and that for memory, is the larger of the two managers' requests.
    """
    spec = doc.get("spec") or {}
    managers, workers = spec.get("jobManager") or {}, spec.get("taskManager") or {}
    count = int(managers.get("replicas", 1)) + _task_managers(spec, workers)
    request: dict[str, str] = {}
    for name in ("cpu", "memory"):
        requests = [
            _amount(str(value)) for part in (managers, workers) if (value := (part.get("resource") or {}).get(name))
        ]
        if requests:
            request[name] = max(requests, key=Quantity.of)
    pods = (spec.get("podTemplate") or {}).get("spec") or {}
    claim = NodeClaim(node_selector=pods.get("nodeSelector") or {}, tolerations=tuple(pods.get("tolerations") or ()))
    return Demand(
        count,
        ReplicaRequirements(
            node_claim=claim if claim != NodeClaim() else None,
            resource_request=request,
            namespace=(doc.get("metadata") or {}).get("namespace", ""),
            priority_class_name=pods.get("priorityClassName") or "",
        ),
    )


def _amount(text: str) -> str:
    """Return an amount as a Kubernetes quantity. Flink also accepts units of its own, all binary: "1g" → "1Gi"."""
    own = _FLINK_UNITS.fullmatch(text.strip().lower())
    try:
        parse(text)
    except QuantityError:
        if own is None:
            raise
        return own[1] + _SUFFIXES[own[2]]
    return text


def _task_managers(spec: dict[str, Any], workers: dict[str, Any]) -> int:
    """Return the number of task managers: spec.taskManager.replicas, else parallelism divided by slots, rounded up."""
    if workers.get("replicas"):
        return int(workers["replicas"])
    parallelism = (spec.get("job") or {}).get("parallelism")
    slots = int((spec.get("flinkConfiguration") or {}).get("taskmanager.numberOfTaskSlots") or 0)
    return math.ceil(int(parallelism) / slots) if parallelism and slots else 1


def healthy(doc: Document) -> bool:
    """Test whether a job is running, has ended, or reports an error that would occur on every cluster."""
    status = doc.get("status") or {}
    state = (status.get("jobStatus") or {}).get("state")
    if state is not None and state not in _STARTING:
        return True
    return bool(status.get("error")) or (state is not None and status.get("jobManagerDeploymentStatus") == "ERROR")

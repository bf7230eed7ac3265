"""FlinkDeployment (flink.apache.org/v1beta1), S002's stateful workload: replicas, needs, health."""

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
"""What the operator reports; carried back whole, and the template's once a job runs on one cluster (semantics 4)."""

_FLINK_UNITS = re.compile(r"(\d+)\s*([kmgt])(?:b|(?:ibi|ebi)bytes)?")
_SUFFIXES = {"k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}
_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")


def replicas(doc: Document) -> Demand:
    """Return job managers and task managers together, each asking for the larger of the two (as one size fits both)."""
    spec = doc.get("spec") or {}
    managers, workers = spec.get("jobManager") or {}, spec.get("taskManager") or {}
    count = int(managers.get("replicas", 1)) + _task_managers(spec, workers)
    request: dict[str, str] = {}
    for name in ("cpu", "memory"):
        asked = [_amount(str(value)) for one in (managers, workers) if (value := (one.get("resource") or {}).get(name))]
        if asked:
            request[name] = max(asked, key=Quantity.of)
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
    """Return an amount as Kubernetes writes it: Flink has units of its own beside it ("1g", "512 mb"), all binary."""
    own = _FLINK_UNITS.fullmatch(text.strip().lower())
    try:
        parse(text)
    except QuantityError:
        if own is None:
            raise
        return own[1] + _SUFFIXES[own[2]]
    return text


def _task_managers(spec: dict[str, Any], workers: dict[str, Any]) -> int:
    """Return how many task managers run: as stated, else as many as the job's parallelism needs slots."""
    if workers.get("replicas"):
        return int(workers["replicas"])
    parallelism = (spec.get("job") or {}).get("parallelism")
    slots = int((spec.get("flinkConfiguration") or {}).get("taskmanager.numberOfTaskSlots") or 0)
    return math.ceil(int(parallelism) / slots) if parallelism and slots else 1


def healthy(doc: Document) -> bool:
    """Test whether a job is up, or has come to an end or an error that another cluster would not mend."""
    status = doc.get("status") or {}
    state = (status.get("jobStatus") or {}).get("state")
    if state is not None and state not in _STARTING:
        return True
    return bool(status.get("error")) or (state is not None and status.get("jobManagerDeploymentStatus") == "ERROR")

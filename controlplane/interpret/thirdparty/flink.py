"""FlinkDeployment (flink.apache.org/v1beta1): job managers and task managers."""

from __future__ import annotations

import math
import re
from typing import Any

from controlplane.apimachinery.quantities import Quantity, QuantityError, parse
from controlplane.interpret import aggregate
from controlplane.interpret.interpreter import Demand, Document, Interpreter
from controlplane.interpret.thirdparty.fields import at, copied, number
from controlplane.kinds.binding import Component, NodeClaim, ReplicaRequirements

_REPORTED = (
    *("clusterInfo", "error", "jobManagerDeploymentStatus", "jobStatus", "observedGeneration", "lifecycleState"),
    *("reconciliationStatus", "taskManager"),
)
_FLINK_UNITS = re.compile(r"(\d+)\s*([kmgt])(?:b|(?:ibi|ebi)bytes)?")
_SUFFIXES = {"k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}
_STARTING = ("CREATED", "INITIALIZING", "RECONCILING")


def replicas(doc: Document) -> Demand:
    """Return the number of job managers and task managers together, with one resource request for all of them.

    The request for cpu, and that for memory, is the larger of the two managers' requests.
    """
    if not isinstance(doc.get("spec") or {}, dict):
        raise ValueError("spec: must be an object")
    request: dict[str, str] = {}
    for name in ("cpu", "memory"):
        requests = [
            _amount(str(value))
            for part in ("jobManager", "taskManager")
            if (value := at(doc, "spec", part, "resource", name)) is not None
        ]
        if requests:
            request[name] = max(requests, key=Quantity.of)
    pods = at(doc, "spec", "podTemplate", "spec") or {}
    return Demand(
        _job_managers(doc) + _task_managers(doc),
        ReplicaRequirements(
            node_claim=_claim(pods),
            resource_request=request,
            namespace=at(doc, "metadata", "namespace") or "",
            priority_class_name=pods.get("priorityClassName") or "",
        ),
    )


def components(doc: Document) -> tuple[Component, ...]:
    """Return the job managers and the task managers, each with what one of them requests."""
    counts = {"jobManager": _job_managers(doc), "taskManager": _task_managers(doc)}
    pods = at(doc, "spec", "podTemplate", "spec") or {}
    return tuple(
        Component(
            name=part.lower(),
            replicas=counts[part],
            replica_requirements=ReplicaRequirements(
                node_claim=_claim(pods),
                resource_request={
                    name: _amount(str(value))
                    for name in ("cpu", "memory")
                    if (value := at(doc, "spec", part, "resource", name)) is not None
                },
                priority_class_name=pods.get("priorityClassName") or "",
            ),
        )
        for part in counts
    )


def healthy(doc: Document) -> bool:
    """Test whether a job is running, has ended, or reports an error that would occur on every cluster."""
    status = doc.get("status") or {}
    state = at(status, "jobStatus", "state")
    if state is not None and state not in _STARTING:
        return True
    return bool(status.get("error")) or (state is not None and status.get("jobManagerDeploymentStatus") == "ERROR")


def _claim(pods: dict[str, Any]) -> NodeClaim | None:
    claim = NodeClaim(node_selector=pods.get("nodeSelector") or {}, tolerations=tuple(pods.get("tolerations") or ()))
    return claim if claim != NodeClaim() else None


def _amount(text: str) -> str:
    """Return an amount as a Kubernetes quantity in its canonical form: "0.05" → "50m".

    Flink also accepts units of its own, all binary: "1g" → "1Gi".
    """
    own = _FLINK_UNITS.fullmatch(text.strip().lower())
    try:
        return str(parse(text))
    except QuantityError:
        if own is None:
            raise
        return own[1] + _SUFFIXES[own[2]]


def _job_managers(doc: Document) -> int:
    return int(number(at(doc, "spec", "jobManager", "replicas"), 1))


def _task_managers(doc: Document) -> int:
    """Return the number of task managers: spec.taskManager.replicas, else parallelism divided by slots, rounded up."""
    written = number(at(doc, "spec", "taskManager", "replicas"))
    if written is not None:
        return int(written)
    parallelism = number(at(doc, "spec", "job", "parallelism"))
    slots = number(at(doc, "spec", "flinkConfiguration", "taskmanager.numberOfTaskSlots"), 0)
    return math.ceil(parallelism / slots) if parallelism is not None and slots else 1


DEPLOYMENT = Interpreter(
    replicas=replicas,
    components=components,
    healthy=healthy,
    reflect=copied(*_REPORTED),
    aggregate=aggregate.last_reported(*_REPORTED),
)

"""SparkApplication (sparkoperator.k8s.io/v1beta2): a driver and its executors."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import Any

from controlplane.apimachinery.quantities import Quantity
from controlplane.interpret import prune
from controlplane.interpret.interpreter import Document, Interpreter
from controlplane.interpret.thirdparty.fields import (
    Items,
    at,
    copied,
    latest,
    needed,
    number,
    only_report,
    reports,
    status_of,
    total,
)
from controlplane.interpret.thirdparty.rollout import ends_as
from controlplane.kinds.binding import Component, NodeClaim, ReplicaRequirements

_REPORTED = (
    *("applicationState", "driverInfo", "executorState", "sparkApplicationId", "lastSubmissionAttemptTime"),
    *("submissionAttempts", "executionAttempts", "submissionID", "terminationTime"),
)
_MEMORY = re.compile(r"(\d+\.?\d*)([kmgtp])?b?")
_UNITS = ("", "k", "m", "g", "t", "p")
_LEAST_OVERHEAD_MIB = 384
_STATES = (
    ("UNKNOWN", ""),
    ("SUBMITTED", "PENDING_RERUN"),
    ("COMPLETED",),
    ("SUSPENDING", "SUSPENDED"),
    ("RUNNING", "RESUMING", "SUCCEEDING"),
    ("INVALIDATING",),
    ("FAILING", "FAILED", "SUBMISSION_FAILED"),
)


def components(doc: Document) -> tuple[Component, ...]:
    """Return the driver and the executors, each with cores, memory with its overhead, and devices.

    Raises ValueError if the type of the application is missing, or an amount of memory cannot be read.
    """
    language = needed(doc, "spec", "type")
    if not isinstance(language, str):
        raise ValueError("spec.type: the field is missing")
    default = 0.1 if language.lower() in ("java", "scala") else 0.4
    factor = number(at(doc, "spec", "memoryOverheadFactor"), default)
    driver, executor = at(doc, "spec", "driver") or {}, at(doc, "spec", "executor") or {}
    return (
        Component(name="driver", replicas=1, replica_requirements=_requested(driver, factor)),
        Component(
            name="executor", replicas=_executors(doc, executor), replica_requirements=_requested(executor, factor)
        ),
    )


def _executors(doc: Document, executor: Document) -> int:
    """Return the executors: instances, or what dynamic allocation begins with if that is more."""
    count = number(executor.get("instances"), 1)
    if at(doc, "spec", "dynamicAllocation", "enabled"):
        dynamic = (at(doc, "spec", "dynamicAllocation", name) for name in ("initialExecutors", "minExecutors"))
        count = max(count, *(number(value, 1) for value in dynamic))
    return int(count)


def _requested(part: Document, factor: float) -> ReplicaRequirements:
    cores = part.get("cores")
    request = {"cpu": str(1 if cores is None else cores), "memory": _memory(part, factor)}
    device, count = at(part, "gpu", "name"), number(at(part, "gpu", "quantity"), 0)
    if device and count > 0:
        request[device] = str(count)
    affinity = at(part, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    claim = NodeClaim(
        hard_node_affinity=affinity,
        node_selector=part.get("nodeSelector") or {},
        tolerations=tuple(part.get("tolerations") or ()),
    )
    return ReplicaRequirements(
        node_claim=claim if claim != NodeClaim() else None,
        resource_request=request,
        priority_class_name=part.get("priorityClassName") or "",
    )


def _memory(part: Document, factor: float) -> str:
    """Return memory and its overhead as a quantity in the smaller of their units.

    The overhead is what is written, else the larger of `factor` times the memory and 384 MiB.
    """
    amount, power = _parsed(part.get("memory") or "1g")
    if part.get("memoryOverhead"):
        overhead, overhead_power = _parsed(part["memoryOverhead"])
    else:
        overhead_power = min(power, 2)
        share = amount * Decimal(repr(factor)) * 1024 ** (power - overhead_power)
        overhead = max(share, Decimal(_LEAST_OVERHEAD_MIB) * 1024 ** (2 - overhead_power))
    unit = min(power, overhead_power)
    total_amount = amount * 1024 ** (power - unit) + overhead * 1024 ** (overhead_power - unit)
    suffix = f"{_UNITS[unit].upper()}i" if unit else ""
    return str(Quantity.of(f"{total_amount:.6f}{suffix}"))


def _parsed(text: Any) -> tuple[Decimal, int]:
    """Return an amount of memory as Java writes it, and the power of 1024 of its unit: "2g" → (2, 3)."""
    found = _MEMORY.fullmatch(str(text).lower())
    if found is None or str(text).lower()[-1].isdigit():
        raise ValueError(f'memory: "{text}" has no unit of Java: write for example "512m" or "2g"')
    return Decimal(found[1]), _UNITS.index(found[2] or "")


def aggregate(doc: Document, items: Items, now: datetime) -> Document:
    """Return the worst state, added attempts, the latest times and all executors of the members.

    An application on one cluster has the status that this cluster reports.
    """
    if not items:
        return status_of(doc)
    if (only := only_report(items)) is not None:
        return only
    states = [report["applicationState"] for report in reports(items) if report.get("applicationState") is not None]
    executors = {
        name: state for report in reports(items) for name, state in (report.get("executorState") or {}).items()
    }
    return {
        **status_of(doc),
        "applicationState": max(states, key=lambda state: _rank(state.get("state")), default={}),
        "executionAttempts": total(items, "executionAttempts"),
        "submissionAttempts": total(items, "submissionAttempts"),
        "executorState": executors,
        "lastSubmissionAttemptTime": latest(items, "lastSubmissionAttemptTime") or "",
        "terminationTime": latest(items, "terminationTime") or "",
    }


def _rank(state: Any) -> int:
    for rank, states in enumerate(_STATES):
        if state in states:
            return rank
    raise ValueError(f"applicationState.state: {state!r} is not a state of SparkApplication")


def healthy(doc: Document) -> bool:
    """Test whether the application has a state, and it is not FAILED."""
    state = at(doc, "status", "applicationState", "state")
    return state is not None and state != "FAILED"


APPLICATION = Interpreter(
    components=components,
    healthy=healthy,
    aggregate=aggregate,
    reflect=copied(*_REPORTED),
    prune=prune.without_field("spec", "timeToLiveSeconds"),
    final=ends_as(("applicationState", "state"), "COMPLETED", "FAILED"),
)

"""Failovers in one sentence each."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.insight.begun import Begun
from controlplane.kinds.binding import ObjectReference, TargetCluster
from controlplane.kinds.failover_record import FINISHED, FailoverRecord

CAUSES = {
    "TaintUntolerated": "because it does not tolerate a taint",
    "ApplicationFailure": "because its copies there were unhealthy",
    "Drain": "for a Drain",
    "Failback": "for a Failback",
    "FailbackInPart": "for a Failback, in part",
    "Reverted": "because a user reverted its failover",
    "RevertedInPart": "because a user reverted its failover in part",
    "RestoredInPart": "because its other replicas run elsewhere",
}
"""Why a binding leaves clusters, by the reason of its eviction tasks."""


def record_sentence(record: FailoverRecord) -> str:
    """Return what happened: which workload left which clusters and why, where it runs now, and how long it took."""
    status = record.status
    left = " and ".join(target.name for target in status.left)
    workload, to = _workload(status.resource), _targets(status.after)
    if status.state == FINISHED:
        took = "" if status.durations.total is None else f" within {status.durations.total:,.0f} s"
        released = f"the old copies were released{took}"
        return f"{workload} left {left} {_cause(status.reason)} and runs on {to}; {released}."
    return f"{workload} leaves {left} {_cause(status.reason)} and goes to {to}; its old copies are kept meanwhile."


def begun_sentence(begun: Begun) -> str:
    """Return what is known of a failover from its first change."""
    return f"{_workload(begun.resource)} left {' and '.join(begun.left)} {_cause(begun.reason)}."


def _cause(reason: str) -> str:
    return CAUSES.get(reason, f"for the reason {reason}")


def _workload(resource: ObjectReference) -> str:
    place = f"{resource.namespace}/{resource.name}" if resource.namespace else resource.name
    return f"{resource.kind} {place}"


def _targets(targets: Iterable[TargetCluster]) -> str:
    texts = [f"{target.name} ({target.replicas})" if target.replicas else target.name for target in targets]
    return ", ".join(texts) or "no cluster"

"""Conditions of templates that tools wait for: kubectl wait, Argo CD and Flux judge built-in kinds by them.

In a cluster, the controllers of Kubernetes write these conditions. Members report counts, and no conditions, to the
control plane. So the conditions of a template follow from the sums of all members [status-aggregation].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from controlplane.apimachinery.meta import to_seconds
from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

AVAILABLE, PROGRESSING = "Available", "Progressing"
COMPLETE, UPDATED = "NewReplicaSetAvailable", "ReplicaSetUpdated"  # reasons, as in Kubernetes
EXCEEDED, PAUSED = "ProgressDeadlineExceeded", "DeploymentPaused"
ABLE_TO_SCALE: Final = "AbleToScale"
SUSPENDED: Final = "Suspended"
NO_DEADLINE: Final = 2**31 - 1  # seconds; the value that Kubernetes reads as none
DEFAULT_DEADLINE: Final = 600  # seconds


class Waited(NamedTuple):
    """A status with its conditions. `wake_at`: when a condition changes by itself; None: never."""

    status: Document
    wake_at: datetime | None = None


class _Rollout(NamedTuple):
    """The replicas of a Deployment over all members."""

    wanted: int
    replicas: int
    updated: int
    ready: int
    available: int

    def is_complete(self) -> bool:
        return self.wanted <= self.updated == self.replicas == self.available

    def is_ahead_of(self, before: _Rollout) -> bool:
        """Test whether there are more new replicas, or fewer old ones, than before."""
        more = self.updated > before.updated or self.ready > before.ready or self.available > before.available
        return more or self.replicas - self.updated < before.replicas - before.updated


def with_conditions(
    doc: Document, status: Document, items: Sequence[AggregatedStatusItem], *, placed: int, now: datetime
) -> Waited:
    """Return the aggregated status of a template with the conditions of its kind.

    `doc`: the template with its earlier status. `placed`: the sum of the replicas of all clusters of the binding.
    """
    rule = _RULES.get((doc.get("apiVersion", ""), doc.get("kind", "")))
    return Waited(status) if rule is None else rule(doc, status, items, placed, now)


def _deployment(
    doc: Document, status: Document, items: Sequence[AggregatedStatusItem], placed: int, now: datetime
) -> Waited:
    """Return the conditions Available and Progressing.

    As in Kubernetes, a rollout that was complete stays complete until the next generation, and one without progress for
    progressDeadlineSeconds has failed.
    """
    spec = doc.get("spec") or {}
    wanted = max(int(spec.get("replicas", 1)), placed)
    old = doc.get("status") or {}
    rollout, before = _rollout(status, wanted), _rollout(old, wanted)
    progressing, wake_at = _progress(doc, status, rollout, before, now=now)
    found = [_available(spec, rollout), progressing]
    return Waited({**status, "conditions": [_since(one, old, now=now) for one in found]}, wake_at)


def _rollout(status: Document, wanted: int) -> _Rollout:
    fields = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    return _Rollout(wanted, *(int(status.get(field) or 0) for field in fields))


def _available(spec: Document, rollout: _Rollout) -> Document:
    least = rollout.wanted - _may_be_unavailable(spec, rollout.wanted)
    if rollout.available >= least:
        return _condition(AVAILABLE, "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    message = f"{rollout.available} replicas are available in all members, at least {least} should be."
    return _condition(AVAILABLE, "False", "MinimumReplicasUnavailable", message)


def _may_be_unavailable(spec: Document, wanted: int) -> int:
    """Return how many replicas may be unavailable: maxUnavailable, a number or a percentage, 25 % by default."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return 0
    given = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", "25%")
    return wanted * int(given.removesuffix("%")) // 100 if isinstance(given, str) else int(given)


def _progress(
    doc: Document, status: Document, rollout: _Rollout, before: _Rollout, *, now: datetime
) -> tuple[Document, datetime | None]:
    """Return the condition Progressing, and when its deadline passes."""
    spec, old = doc.get("spec") or {}, _found(doc.get("status") or {}, PROGRESSING)
    observed = status.get("observedGeneration") == (doc.get("metadata") or {}).get("generation")
    reason = old.get("reason", "")
    if spec.get("paused"):
        return _condition(PROGRESSING, "Unknown", PAUSED, "Deployment is paused"), None
    if observed and (rollout.is_complete() or reason == COMPLETE):
        return _condition(PROGRESSING, "True", COMPLETE, "The replicas of all members are updated and available."), None
    seconds = int(spec.get("progressDeadlineSeconds") or DEFAULT_DEADLINE)
    goes_on = _condition(PROGRESSING, "True", UPDATED, "The replicas of members are being updated.")
    if reason not in (UPDATED, EXCEEDED) or rollout.is_ahead_of(before):
        ends_at = now + timedelta(seconds=seconds)
        return {**goes_on, "lastUpdateTime": _text(now)}, ends_at if seconds < NO_DEADLINE else None
    if reason == EXCEEDED:
        return old, None
    ends_at = datetime.fromisoformat(old["lastUpdateTime"]) + timedelta(seconds=min(seconds, NO_DEADLINE))
    if seconds < NO_DEADLINE and now >= ends_at:
        message = f"No progress in any member for {seconds} s; {rollout.available} of {rollout.wanted} are available."
        return _condition(PROGRESSING, "False", EXCEEDED, message), None
    return {**goes_on, "lastUpdateTime": old["lastUpdateTime"]}, ends_at if seconds < NO_DEADLINE else None


def _scaler(
    doc: Document, status: Document, items: Sequence[AggregatedStatusItem], placed: int, now: datetime
) -> Waited:
    """Return the condition AbleToScale of a HorizontalPodAutoscaler once every member wants a number of replicas."""
    if not items or not all((item.status or {}).get("desiredReplicas") for item in items):
        return Waited(status)
    able = _condition(ABLE_TO_SCALE, "True", "ReadyForNewScale", "Every member reports how many replicas it wants.")
    return Waited({**status, "conditions": [_since(able, doc.get("status") or {}, now=now)]})


def _job(doc: Document, status: Document, items: Sequence[AggregatedStatusItem], placed: int, now: datetime) -> Waited:
    """Return the condition Suspended of a Job that is suspended in every member, beside those that it has.

    A condition that says the same as before keeps its times.
    """
    old, found = doc.get("status") or {}, list(status.get("conditions") or ())
    if items and all(_found(item.status or {}, SUSPENDED).get("status") == "True" for item in items):
        suspended = _condition(SUSPENDED, "True", "JobSuspended", "Job suspended")
        found.append({**suspended, "lastProbeTime": _text(now), "lastTransitionTime": _text(now)})
    if not found:
        return Waited(status)
    before = [(new, _found(old, new["type"])) for new in found]
    kept = [known if _says_the_same(new, known) else new for new, known in before]
    return Waited({**status, "conditions": kept})


def _claim(
    doc: Document, status: Document, items: Sequence[AggregatedStatusItem], placed: int, now: datetime
) -> Waited:
    """Return phase Pending instead of Bound while there is no member, or one has not reported a phase."""
    waits = status.get("phase") == "Bound" and not (items and all(item.status for item in items))
    return Waited({**status, "phase": "Pending"} if waits else status)


def _condition(type_: str, status: str, reason: str, message: str) -> Document:
    return {"type": type_, "status": status, "reason": reason, "message": message}


def _found(status: Document, type_: str) -> Document:
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return next((dict(one) for one in conditions if one.get("type") == type_), {})


def _says_the_same(new: Document, old: Document) -> bool:
    return all(old.get(field) == new[field] for field in ("status", "reason", "message"))


def _since(new: Document, status: Document, *, now: datetime) -> Document:
    """Return a condition with its times: the earlier ones where its status and text are as in the earlier status."""
    old = _found(status, new["type"])
    same = _says_the_same(new, old)
    changed = old.get("lastTransitionTime") if old.get("status") == new["status"] else None
    times = {"lastTransitionTime": changed or _text(now)}
    if new["type"] in (AVAILABLE, PROGRESSING):
        times["lastUpdateTime"] = (
            new.get("lastUpdateTime") or (old.get("lastUpdateTime") if same else None) or _text(now)
        )
    return {**new, **times}


def _text(now: datetime) -> str:
    return to_seconds(now).strftime("%Y-%m-%dT%H:%M:%SZ")


_Rule = Callable[[Document, Document, Sequence[AggregatedStatusItem], int, datetime], Waited]
_RULES: Final[Mapping[tuple[str, str], _Rule]] = {
    ("apps/v1", "Deployment"): _deployment,
    ("autoscaling/v2", "HorizontalPodAutoscaler"): _scaler,
    ("batch/v1", "Job"): _job,
    ("v1", "PersistentVolumeClaim"): _claim,
}

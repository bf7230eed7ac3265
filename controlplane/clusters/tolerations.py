"""Which taints a toleration tolerates, and how long a copy waits on a cluster with taints that evict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controlplane.kinds.binding import ResourceBindingSpec
from controlplane.kinds.cluster import NO_EXECUTE, Taint
from controlplane.kinds.policy import PropagationSpec, Toleration


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration tolerates a taint. An empty effect or key matches all effects or keys."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Collection[str]
) -> tuple[Taint, ...]:
    """Return the taints with one of these effects that no toleration tolerates, in their order."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
    )


def wait_seconds(spec: ResourceBindingSpec | PropagationSpec, taint: Taint, taints: Sequence[Taint]) -> float | None:
    """Return how many seconds after the taint was added a copy leaves. None: it stays.

    NoExecute: 0 if no toleration of the placement tolerates the taint. Otherwise the shortest tolerationSeconds among
    the tolerations in use that tolerate it; None if these tolerate it for ever. In use is the first toleration that
    matches each NoExecute taint of the cluster [taint-manager].

    PreferNoExecute: the toleration of spec.failover.cluster; None without it [prefer-no-execute].
    """
    if taint.effect != NO_EXECUTE:
        behaviour = None if spec.failover is None else spec.failover.cluster
        return None if behaviour is None else float(behaviour.waits)
    tolerations = () if spec.placement is None else spec.placement.cluster_tolerations
    if _first_toleration(tolerations, taint) is None:
        return 0.0
    used = (_first_toleration(tolerations, item) for item in taints if item.effect == NO_EXECUTE)
    tolerated = [entry.toleration_seconds for entry in used if entry is not None and tolerates(entry, taint)]
    return min((float(max(0, seconds)) for seconds in tolerated if seconds is not None), default=None)


def _first_toleration(tolerations: Iterable[Toleration], taint: Taint) -> Toleration | None:
    return next((toleration for toleration in tolerations if tolerates(toleration, taint)), None)


def spelled(taint: Taint) -> str:
    """Return a taint as kubectl writes it: `key=value:effect`, or `key:effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"

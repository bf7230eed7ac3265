"""Which taints a toleration tolerates. For how long it tolerates them is decided in `controlplane.eviction`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration


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


def spelled(taint: Taint) -> str:
    """Return a taint as kubectl writes it: `key=value:effect`, or `key:effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"

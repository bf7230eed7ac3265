"""Conflicts over quotas: is there still room for a decision, after what others have placed meanwhile?

Several writers place bindings of a namespace: users, the scheduler, and the controller of policies. Each has read what
the namespace uses. The store reads it once more under the write lock, and drops a decision that no longer fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from controlplane.engine.decision import QuotaGuard
from controlplane.estimate.quota import NO_USE, Use, changes, difference, most
from controlplane.kinds.binding import Binding
from controlplane.kinds.federated_quota import FederatedResourceQuota


def quota_guards(
    quotas: Sequence[FederatedResourceQuota], before: Binding | None, after: Binding, *, moved: Use = NO_USE
) -> tuple[QuotaGuard, ...]:
    """Return the condition under which a change of a binding is stored. (): no quota of its namespace limits it.

    `moved`: what evicted copies request that the change places again. Only growth beyond it is limited.
    """
    more = changes(before, after) if quotas else NO_USE
    limits = most(quotas, difference(more, moved) if moved else more)
    if not limits:
        return ()
    return (QuotaGuard(after.metadata.namespace, tuple(sorted(more.items())), tuple(sorted(limits.items()))),)


class QuotaUse:
    """What namespaces use, while the decisions of one transaction are added to it. It is mutable."""

    def __init__(self, used: Mapping[str, Mapping[str, int]]) -> None:
        self._used = {namespace: dict(amounts) for namespace, amounts in used.items()}

    def exceeded(self, guards: Iterable[QuotaGuard]) -> str:
        """Return the first namespace that has no room for what a decision adds; "": there is room."""
        for guard in guards:
            used, more = self._used.get(guard.namespace, {}), dict(guard.more)
            if any(used.get(name, 0) + more.get(name, 0) > most for name, most in guard.most):
                return guard.namespace
        return ""

    def take(self, guards: Iterable[QuotaGuard]) -> None:
        """Add what a decision uses, so that it is missing to the next decisions."""
        for guard in guards:
            used = self._used.setdefault(guard.namespace, {})
            for name, amount in guard.more:
                used[name] = used.get(name, 0) + amount

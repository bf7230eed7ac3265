"""Override policies that have to exist before a propagation policy is applied (`dependentOverrides`)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.policy import Policy


def overrides_awaited(policy: Policy) -> list[Ref]:
    """Return the override policies that a policy waits for."""
    namespace = policy.metadata.namespace
    kind = kinds.OVERRIDE_POLICY if namespace else kinds.CLUSTER_OVERRIDE_POLICY
    return [Ref(kind, namespace, name) for name in policy.spec.dependent_overrides]


def awaited_overrides(state: State, policies: Iterable[Policy]) -> frozenset[Ref]:
    """Return the override policies that these policies name and that exist. If none is named, no query is made."""
    awaited = {ref for policy in policies for ref in overrides_awaited(policy)}
    return frozenset(state.get(sorted(awaited))) if awaited else frozenset()

"""Objects that have to exist before a propagation policy is applied: the override policies of its `dependentOverrides`,
and the PriorityClass that gives its bindings their priority."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State
from controlplane.kinds.policy import Policy
from controlplane.propagation import bindings

PRIORITY_CLASS: Final = "scheduling.k8s.io/PriorityClass"


def overrides_awaited(policy: Policy) -> list[Ref]:
    """Return the override policies that a policy waits for."""
    namespace = policy.metadata.namespace
    kind = kinds.OVERRIDE_POLICY if namespace else kinds.CLUSTER_OVERRIDE_POLICY
    return [Ref(kind, namespace, name) for name in policy.spec.dependent_overrides]


def awaited_overrides(state: State, policies: Iterable[Policy]) -> frozenset[Ref]:
    """Return the override policies that these policies name and that exist. If none is named, no query is made."""
    awaited = {ref for policy in policies for ref in overrides_awaited(policy)}
    return frozenset(state.get(sorted(awaited))) if awaited else frozenset()


def priorities_of(state: State, policies: Iterable[Policy]) -> dict[str, int]:
    """Return the values of the PriorityClasses that these policies name. Those that do not exist are left out."""
    names = {name for policy in policies if (name := bindings.priority_class(policy.spec))}
    found = state.get([Ref(PRIORITY_CLASS, "", name) for name in sorted(names)]) if names else {}
    return {ref.name: int(priority_class.content.get("value", 0)) for ref, priority_class in found.items()}


def missing_class(policy: Policy, priorities: Mapping[str, int]) -> str:
    """Return the message about a PriorityClass that a policy waits for; "": it waits for none."""
    name = bindings.priority_class(policy.spec)
    if not name or name in priorities:
        return ""
    return (
        f'policy {policy.metadata.name} names PriorityClass "{name}", which does not exist: '
        "create the PriorityClass, or name an existing one in spec.schedulePriority of the policy"
    )


def missing_overrides(policy: Policy, overrides: Collection[Ref]) -> str:
    """Return the message about override policies that a policy waits for; "": it waits for none."""
    missing = [ref for ref in overrides_awaited(policy) if ref not in overrides]
    if not missing:
        return ""
    return (
        f"policy {policy.metadata.name} waits for {', '.join(map(str, missing))}, which its dependentOverrides "
        "name: create them, or remove the names from the policy"
    )

"""Which override policies were applied to a Work: its annotations, in the form that Karmada writes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import APPLIED_CLUSTER_OVERRIDES, APPLIED_OVERRIDES
from controlplane.kinds.override_policy import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICY


class _Applied(Struct, frozen=True):
    """An item of the annotations."""

    policy_name: str


def applied_overrides(annotations: Mapping[str, str]) -> list[Ref]:
    """Return the policies that were applied to a Work, by its annotations: cluster-scoped ones first, then by name.

    Annotations that cannot be read count as absent, because users can write them.
    """
    namespace = annotations.get("resourcebinding.karmada.io/namespace", "")
    found: dict[Ref, None] = {}
    for key, kind, place in (
        (APPLIED_CLUSTER_OVERRIDES, CLUSTER_OVERRIDE_POLICY, ""),
        (APPLIED_OVERRIDES, OVERRIDE_POLICY, namespace),
    ):
        try:
            items = msgspec.json.decode(annotations.get(key) or "[]", type=list[_Applied])
        except msgspec.MsgspecError:
            continue
        found |= {Ref(kind, place, item.policy_name): None for item in items}
    return list(found)


def shown(policy: Ref) -> str:
    """Return a policy as "OverridePolicy namespace/name"."""
    kind = policy.kind.rpartition("/")[2]
    return f"{kind} {policy.namespace}/{policy.name}" if policy.namespace else f"{kind} {policy.name}"

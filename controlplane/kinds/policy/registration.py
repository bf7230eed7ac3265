"""Registers PropagationPolicy and ClusterPropagationPolicy."""

from __future__ import annotations

from controlplane.kind import Index, Kind
from controlplane.kinds import cells
from controlplane.kinds.field_texts import explain
from controlplane.kinds.owners import OWNED
from controlplane.kinds.policy import Policy, normalise, rules
from controlplane.kinds.policy.field_texts import TEXTS
from controlplane.kinds.policy_resource import policy_resource
from controlplane.wire.resource import Column
from controlplane.wire.structs import schema_of

explain(TEXTS)


def _selected_kinds(policy: Policy) -> list[str]:
    return sorted({f"{selector.api_version}/{selector.kind}" for selector in policy.spec.resource_selectors})


def _awaited_overrides(policy: Policy) -> list[str]:
    return [f"{policy.metadata.namespace}/{name}" for name in sorted(set(policy.spec.dependent_overrides))]


_COLUMNS = (
    Column("Conflict-Resolution", cells.field("spec", "conflictResolution")),
    Column("Priority", cells.field("spec", "priority"), type="integer"),
)


def _kind(name: str, plural: str, short: str, *, namespaced: bool) -> Kind:
    return Kind(
        resource=policy_resource(name, plural, short, namespaced=namespaced, columns=_COLUMNS),
        type=Policy,
        table="policies.Policy",
        schema=lambda: schema_of(Policy),
        normalise=normalise,
        default=rules.default,
        validate=rules.validate,
        warn=rules.warn,
        has_status=False,
        indexes=(
            Index("selects", _selected_kinds, "controllers.policies: policies that may match a template"),
            Index("awaits", _awaited_overrides, "controllers.policies: policies that wait for an override policy"),
            OWNED,
        ),
    )


DECLARED = (
    _kind("PropagationPolicy", "propagationpolicies", "pp", namespaced=True),
    _kind("ClusterPropagationPolicy", "clusterpropagationpolicies", "cpp", namespaced=False),
)

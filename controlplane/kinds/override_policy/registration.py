"""Registers OverridePolicy and ClusterOverridePolicy."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.kind import Index, Kind
from controlplane.kinds.field_texts import explain
from controlplane.kinds.override_policy import OverridePolicy, rules
from controlplane.kinds.override_policy.field_texts import TEXTS
from controlplane.kinds.owners import OWNED
from controlplane.kinds.policy_resource import policy_resource
from controlplane.wire.resource import Column
from controlplane.wire.structs import schema_of

ALL_OBJECTS = "*"
"""In the index `overrides`: the policy has no selectors."""
READS_CLUSTERS = "facts"
"""In the index `targets`: the rules depend on labels, provider, region or zones of clusters."""

explain(TEXTS)


def index_value(namespace: str, selection: str) -> str:
    """Return a value of the index `overrides`. `selection`: "apiVersion/kind", or ALL_OBJECTS."""
    return f"{namespace}|{selection}"


def _overrides(policy: OverridePolicy) -> list[str]:
    selectors = policy.spec.resource_selectors
    selections = {f"{selector.api_version}/{selector.kind}" for selector in selectors} if selectors else {ALL_OBJECTS}
    return [index_value(policy.metadata.namespace, selection) for selection in sorted(selections)]


def _targets(policy: OverridePolicy) -> list[str]:
    return [READS_CLUSTERS] if policy.reads_cluster() else []


def _selected(doc: dict[str, Any], now: datetime) -> str:
    """Return the cell Selects: the kinds and names that the policy selects."""
    selectors = doc.get("spec", {}).get("resourceSelectors") or ()
    named = [
        f"{item.get('kind', '')}/{item['name']}" if item.get("name") else item.get("kind", "") for item in selectors
    ]
    return ", ".join(dict.fromkeys(named)) or "all objects"


def _rule_count(doc: dict[str, Any], now: datetime) -> int:
    spec = doc.get("spec", {})
    return len(spec.get("overrideRules") or ()) or int(bool(spec.get("overriders")))


_COLUMNS = (Column("Selects", _selected), Column("Rules", _rule_count, type="integer"))


def _kind(name: str, plural: str, short: str, *, namespaced: bool) -> Kind:
    return Kind(
        resource=policy_resource(name, plural, short, namespaced=namespaced, columns=_COLUMNS),
        type=OverridePolicy,
        schema=lambda: schema_of(OverridePolicy),
        validate=rules.validate,
        warn=rules.warn,
        has_status=False,
        indexes=(
            Index("overrides", _overrides, "controllers.works, namespaces: policies that may change an object"),
            Index("targets", _targets, "controllers.works, namespaces: policies that a changed cluster concerns"),
            OWNED,
        ),
    )


DECLARED = (
    _kind("OverridePolicy", "overridepolicies", "op", namespaced=True),
    _kind("ClusterOverridePolicy", "clusteroverridepolicies", "cop", namespaced=False),
)

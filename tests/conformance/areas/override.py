"""Override policies: the object that a cluster gets, and which policies were applied."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.cluster import Cluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.propagation import overrides
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    listed = (given.get("clusterOverridePolicies") or []) + (given.get("overridePolicies") or [])
    policies = [typed(policy, OverridePolicy) for policy in listed]
    try:
        result = overrides.apply(policies, given["object"], typed(given["cluster"], Cluster))
    except overrides.OverrideFailed as error:
        return {"error": str(error)}
    names = [(policy.cluster_scoped, policy.metadata.name) for policy, _rule in result.applied]
    return {
        "object": result.manifest,
        "appliedClusterOverridePolicies": [name for cluster_scoped, name in names if cluster_scoped],
        "appliedOverridePolicies": [name for cluster_scoped, name in names if not cluster_scoped],
    }


def agree(expect: Document, result: Document) -> bool:
    """Compare the objects, or that both failed. Texts of errors differ: ours say what to do."""
    if "error" in expect or "error" in result:
        return ("error" in expect) == ("error" in result)
    return equivalent(expect, result)

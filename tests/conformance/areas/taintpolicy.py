"""Which taints ClusterTaintPolicies without windows put on a cluster and take off.

A taint that is there already counts as owned by the policies that list it and target the cluster [taint-policies].
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from controlplane.clusters.taint_policies import Sight, match, owner, rule_of, target, wanted
from controlplane.clusters.taints import Identity, Ownership, settled
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy.affinity import chooses
from controlplane.kinds.taint_policy import ClusterTaintPolicy, PolicyTaint
from tests.conformance.compare import equivalent
from tests.conformance.documents import typed

Document = dict[str, Any]

SHARED = "[taint-policies] a taint two policies list stays while one of them wants it"


def run(given: Document) -> Document:
    cluster, policies, now = _read(given)
    owned: dict[Identity, Ownership] = {}
    for taint in cluster.spec.taints:
        by = {
            owner(one): rule_of(one.spec, own)
            for one in policies
            if _targets(one, cluster)
            for own in one.spec.taints
            if _same(own, taint)
        }
        if by:
            owned[taint.key, taint.effect] = Ownership(by)
    policies_want = wanted(
        cluster, policies, owned, {}, sight=Sight(now), moving_since=now, counting_since=now, now=now
    )
    taints, _ = settled(cluster.spec.taints, owned, policies_want.wanted.wants, now=now)
    return {"taints": msgspec.to_builtins(taints)}


def agree(expect: Document, result: Document) -> bool:
    return equivalent(expect, result)


def differs(given: Document, expect: Document, result: Document) -> str | None:
    """Policies that disagree about a taint: the original lets the youngest win, we keep what one of them wants."""
    cluster, policies, _ = _read(given)
    removing = {
        identity
        for one in policies
        if _targets(one, cluster) and match(one.spec.remove_on_conditions, cluster.status.conditions, empty=False)
        for identity in _identities(one)
    }
    lists = [identity for one in policies if _targets(one, cluster) for identity in _identities(one)]
    contested = {identity for identity in removing if lists.count(identity) > 1}
    same = equivalent(_without(expect, contested), _without(result, contested))
    return SHARED if contested and same else None


def _read(given: Document) -> tuple[Cluster, list[ClusterTaintPolicy], datetime]:
    policies = typed(given["policies"], list[ClusterTaintPolicy])
    return typed(given["cluster"], Cluster), policies, typed(given["now"], datetime)


def _targets(policy: ClusterTaintPolicy, cluster: Cluster) -> bool:
    return chooses(target(policy.spec), cluster)


def _identities(policy: ClusterTaintPolicy) -> list[Identity]:
    return [(taint.key, taint.effect) for taint in policy.spec.taints]


def _same(own: PolicyTaint, taint: Taint) -> bool:
    return (own.key, own.effect) == (taint.key, taint.effect)


def _without(document: Document, identities: set[Identity]) -> list[Document]:
    return [one for one in document["taints"] or [] if (one["key"], one["effect"]) not in identities]

"""Clusters by name, of which one may be damaged."""

from __future__ import annotations

from collections.abc import Collection

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import State, Unreadable
from controlplane.kinds.cluster import Cluster


def legible_clusters(state: State, names: Collection[str]) -> dict[str, Cluster]:
    """Return the clusters of these names that exist; one whose document cannot be decoded as far as it can be read.

    Such a cluster is `unreadable`: it counts as one to which access is lost, and nothing is decided about it.
    """
    refs = [Ref(kinds.CLUSTER, "", name) for name in sorted(names)]
    try:
        found: dict[Ref, Cluster] = state.get(refs)
    except Unreadable:  # only lists have what can be read of a cluster
        found = {one.ref: one for one in state.list(kinds.CLUSTER) if one.metadata.name in names}
    return {ref.name: cluster for ref, cluster in found.items()}

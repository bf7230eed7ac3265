"""A digest of everything in the clusters that decides whether a copy finds a new cluster.

Evictions that are held for lack of a cluster are tried again when the digest changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from controlplane.kinds.cluster import Cluster
from controlplane.scheduling.cluster_facts import facts


class CapacityDigest:
    """Computes the digest. It caches the last one, and the APIs of each cluster, only to encode less."""

    def __init__(self) -> None:
        self._seen: tuple[list[Any], str] = [], digest(())
        self._served: dict[str, tuple[Any, str]] = {}  # by cluster: its APIs, which are long and rarely change

    def digest(self, clusters: Sequence[Cluster]) -> str:
        """Return the digest of these clusters. It is the same in all processes."""
        served = {cluster.metadata.name: self._apis(cluster) for cluster in clusters}
        self._served = served
        parts = [
            (name, *facts(item), item.spec, item.ready, item.status.resource_summary, served[name][1])
            for item in clusters
            for name in (item.metadata.name,)
        ]
        if self._seen[0] != parts:
            self._seen = parts, digest(map(msgspec.json.encode, parts))
        return self._seen[1]

    def _apis(self, cluster: Cluster) -> tuple[Any, str]:
        """Return the APIs of a cluster and their digest."""
        apis = cluster.status.api_enablements
        cached = self._served.get(cluster.metadata.name)
        return cached if cached is not None and cached[0] == apis else (apis, digest((msgspec.json.encode(apis),)))


def digest(texts: Iterable[bytes]) -> str:
    """Return a digest of texts."""
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]

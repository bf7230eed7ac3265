"""Addresses of the API."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

FAILOVER: Final = "/apis/failover.lifeboat.io/v1alpha1"
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
WORK: Final = "/apis/work.karmada.io/v1alpha2"


def cluster(name: str) -> str:
    return f"{CLUSTERS}/{quote(name, safe='')}"


def failover(plural: str, name: str = "", *, namespace: str = "") -> str:
    """Return the address of a kind of failover.lifeboat.io, of one of its objects, or of both in a namespace."""
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{FAILOVER}{within}/{plural}" + (f"/{quote(name, safe='')}" if name else "")


def binding(namespace: str, name: str) -> str:
    """Return the address of a ResourceBinding; of a ClusterResourceBinding if the namespace is ""."""
    if not namespace:
        return f"{WORK}/clusterresourcebindings/{quote(name, safe='')}"
    return f"{WORK}/namespaces/{quote(namespace, safe='')}/resourcebindings/{quote(name, safe='')}"

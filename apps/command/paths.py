"""Addresses of the API."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from apps.command.errors import usage

FAILOVER: Final = "/apis/failover.lifeboat.io/v1alpha1"
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"
WORK: Final = "/apis/work.karmada.io/v1alpha2"


def named(name: str) -> str:
    """Return a name as a part of an address. Raises CommandError for a text that makes it the address of others.

    An HTTP client resolves . and .., and without a name the address is that of all objects of the kind.
    """
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise usage(f'"{name}" is not the name of an object; a name is not empty, . or .., and has no / and no %')
    return quote(name, safe="")


def cluster(name: str) -> str:
    return f"{CLUSTERS}/{named(name)}"


def failover(plural: str, name: str = "", *, namespace: str = "") -> str:
    """Return the address of a kind of failover.lifeboat.io, of one of its objects, or of both in a namespace."""
    within = f"/namespaces/{named(namespace)}" if namespace else ""
    return f"{FAILOVER}{within}/{plural}" + (f"/{named(name)}" if name else "")


def binding(namespace: str, name: str) -> str:
    """Return the address of a ResourceBinding; of a ClusterResourceBinding if the namespace is ""."""
    if not namespace:
        return f"{WORK}/clusterresourcebindings/{named(name)}"
    return f"{WORK}/namespaces/{named(namespace)}/resourcebindings/{named(name)}"

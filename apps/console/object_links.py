"""URLs of the console's pages about objects."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING

NOWHERE: Final = "-"
"""Stands in URLs for the namespace of cluster-scoped objects."""
CORE: Final = "core"
"""Stands in URLs for the group of kinds without a group."""


def binding_url(ref: Ref) -> str:
    """Return the URL of the page of a binding."""
    return f"/bindings/{_part(ref.namespace or NOWHERE)}/{_part(ref.name)}"


def binding_ref(namespace: str, name: str) -> Ref:
    """Return the reference of a binding, by the parts of the URL of its page."""
    return Ref(CLUSTER_RESOURCE_BINDING, "", name) if namespace == NOWHERE else Ref(RESOURCE_BINDING, namespace, name)


def workload_url(ref: Ref) -> str:
    """Return the URL of the page of a workload, by the reference of its template."""
    group, _, kind = ref.kind.rpartition("/")
    parts = (group or CORE, kind, ref.namespace or NOWHERE, ref.name)
    return f"/workloads/{'/'.join(map(_part, parts))}"


def record_url(name: str, namespace: str = "") -> str:
    """Return the URL of the page of a FailoverRecord. `namespace`: for readers with rights in this namespace only."""
    return f"/records/{_part(name)}" + (f"?namespace={_part(namespace)}" if namespace else "")


def cluster_url(name: str) -> str:
    """Return the URL of the page of a cluster."""
    return f"/clusters/{_part(name)}"


def api_url(ref: Ref) -> str:
    """Return the URL of an object in the Kubernetes API; "": its kind is not served."""
    known = KINDS.get(ref.kind)
    if known is None:
        return ""
    resource = known.resource
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    place = f"/namespaces/{_part(ref.namespace)}" if ref.namespace else ""
    return f"{root}{place}/{resource.plural}/{_part(ref.name)}"


def _part(text: str) -> str:
    return quote(text, safe=":")

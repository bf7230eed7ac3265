"""URL paths of objects and of lists in the Kubernetes API of a member."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import kind_key
from controlplane.kinds import KINDS


class Unservable(Exception):
    """The kind of a manifest is unknown, so its URL is unknown as well."""


def collection_path(api_version: str, kind: str, namespace: str = "") -> str:
    """Return the URL path of the objects of a kind. `namespace` "": all namespaces. Raises Unservable."""
    known = KINDS.get(kind_key(api_version, kind))
    if known is None:
        raise Unservable(
            f"{api_version} {kind}: the kind is unknown; create its CustomResourceDefinition in Lifeboat first"
        )
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    middle = f"/namespaces/{namespace}" if namespace and known.resource.namespaced else ""
    return f"{root}{middle}/{known.resource.plural}"


def object_path(manifest: dict[str, Any]) -> str:
    """Return the URL path of an object. Raises Unservable."""
    metadata = manifest.get("metadata", {})
    place = collection_path(manifest.get("apiVersion", ""), manifest.get("kind", ""), metadata.get("namespace", ""))
    return f"{place}/{metadata.get('name', '')}"

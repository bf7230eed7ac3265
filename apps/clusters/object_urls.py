"""URL paths of objects and of lists in the Kubernetes API of a member."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from controlplane.apimachinery.meta import kind_key
from controlplane.kinds import KINDS


class Unservable(Exception):
    """The kind of a manifest is unknown, so its URL is unknown as well."""


class NoName(Unservable):
    """An object has a name or a namespace that no member can have: in a URL it would lead to something else."""


def collection_path(api_version: str, kind: str, namespace: str = "") -> str:
    """Return the URL path of the objects of a kind. `namespace` "": all namespaces. Raises Unservable, and NoName."""
    known = KINDS.get(kind_key(api_version, kind))
    if known is None:
        raise Unservable(
            f"{api_version} {kind}: the kind is unknown; create its CustomResourceDefinition in Lifeboat first"
        )
    return _collection(api_version, known.resource.plural, namespace if known.resource.namespaced else "")


def object_path(manifest: dict[str, Any]) -> str:
    """Return the URL path of an object. Raises Unservable, and NoName also for an object of an unknown kind."""
    metadata = manifest.get("metadata", {})
    name, namespace = _segment(metadata.get("name", "")), metadata.get("namespace") or ""
    if namespace:
        _segment(namespace)
    return f"{collection_path(manifest.get('apiVersion', ''), manifest.get('kind', ''), namespace)}/{name}"


def object_path_by(plural: str, manifest: dict[str, Any]) -> str:
    """Return the URL path of an object of a kind whose plural name the member has reported. Raises NoName."""
    metadata = manifest.get("metadata", {})
    place = _collection(manifest.get("apiVersion", ""), quote(plural, safe=""), metadata.get("namespace", ""))
    return f"{place}/{_segment(metadata.get('name', ''))}"


def _collection(api_version: str, plural: str, namespace: str) -> str:
    version = quote(api_version, safe="/")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    middle = f"/namespaces/{_segment(namespace)}" if namespace else ""
    return f"{root}{middle}/{plural}"


def _segment(name: Any) -> str:
    """Return a name as a part of a path. Raises NoName.

    Names of most kinds need no quoting. Roles, for example, may be named `web?old`; no kind has a name with / or %.
    An override policy may have written anything as the namespace.
    """
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "%" in name:
        raise NoName(f'"{name}" cannot be the name of an object')
    return quote(name, safe=":")

"""Places: what a URL of the API names, as the title and the breadcrumbs of its page; and URLs of objects."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode

from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds import failover_record, fleet_readiness, fleet_status, interpretation, placement_review
from controlplane.wire.builtin import REVIEWS
from controlplane.wire.request import ResourcePath, parse_path
from controlplane.wire.resource import Resource

COMPUTED = (
    *(failover_record.RESOURCE, fleet_readiness.RESOURCE, fleet_status.RESOURCE, placement_review.RESOURCE),
    interpretation.RESOURCE,
    *REVIEWS,
)
"""Resources that are served and never stored."""
BRAND = "Lifeboat"


class Link(NamedTuple):
    """A text with its URL."""

    text: str
    url: str


def title_of(path: str) -> str:
    """Return the title of the page of a URL: group / kind / name for objects, the last part of the path for others."""
    parts = path.strip("/").split("/")
    place = parse_path(parts)
    if place is None:
        return parts[-1] or BRAND
    named = [place.group or "core", _kind_of(place)]
    return " / ".join([*named, *filter(None, (place.name, place.subresource))])


def crumbs(path: str) -> list[Link]:
    """Return the breadcrumbs of a URL, from the front page to the page itself."""
    parts = path.strip("/").split("/")
    found = [Link(BRAND, "/")]
    if parts[0] not in ("api", "apis"):
        return [*found, Link(parts[0], path)] if parts[0] else found
    found.append(Link("core", "/api") if parts[0] == "api" else Link("groups", "/apis"))
    head = 2 if parts[0] == "api" else 3
    if len(parts) >= head:
        found.append(Link("/".join(parts[1:head]), f"/{'/'.join(parts[:head])}"))
    elif len(parts) == 2:
        found.append(Link(parts[1], path))
    place = parse_path(parts)
    if place is None:
        return found
    if place.namespace:
        found.append(Link(f"namespace {place.namespace}", f"/api/v1/namespaces/{place.namespace}"))
    end = len(parts) - bool(place.name) - bool(place.subresource)
    found.append(Link(_kind_of(place), f"/{'/'.join(parts[:end])}"))
    for number, text in enumerate(filter(None, (place.name, place.subresource)), start=1):
        found.append(Link(text, f"/{'/'.join(parts[: end + number])}"))
    return found


def list_url(resource: Resource, *, namespace: str = "", **query: str) -> str:
    """Return the URL of the objects of a kind. `namespace` "": those of all namespaces."""
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    place = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
    return f"{root}{place}/{resource.plural}" + (f"?{urlencode(query)}" if query else "")


def object_url(ref: Ref) -> str:
    """Return the URL of an object. "": its kind is not served."""
    kind = KINDS.get(ref.kind)
    return "" if kind is None else f"{list_url(kind.resource, namespace=ref.namespace)}/{ref.name}"


def _kind_of(place: ResourcePath) -> str:
    """Return the kind that a path names; its plural if the kind is not served."""
    kind = KINDS.served(place.group, place.version, place.plural)
    resources = (*((kind.resource,) if kind is not None else ()), *COMPUTED)
    same = (one for one in resources if (one.group, one.plural) == (place.group, place.plural))
    return next((one.kind for one in same), place.plural)

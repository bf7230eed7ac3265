"""Regular expressions for the URLs of resources, for a router that matches paths without their leading slash."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controlplane.wire.resource import Resource

_NAME = "[^/]+"


def root(resource: Resource) -> str:
    """Return the path under which the resources of a group version are served: "api/v1" or "apis/apps/v1"."""
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def object_urls(resource: Resource) -> str:
    """Return the pattern of a collection and its objects, with the groups `namespace` and `name` (None: absent)."""
    namespace = f"(?:namespaces/(?P<namespace>{_NAME})/)?" if resource.namespaced else ""
    name = f"(?:/(?P<name>{_NAME}))?" if "get" in resource.verbs else ""
    return f"^{re.escape(root(resource))}/{namespace}{resource.plural}{name}/?$"


def subresource_urls(resources: Iterable[Resource], subresources: Iterable[str]) -> str:
    """Return the pattern of the given subresources, for all resources that declare them. It has no groups."""
    wanted = tuple(subresources)
    paths = [
        f"{_object(resource)}/{name}" for resource in resources for name in wanted if name in resource.subresources
    ]
    return f"^(?:{'|'.join(paths)})/?$"


def all_urls(resources: Iterable[Resource]) -> str:
    """Return the pattern of every URL of some resources: collections, objects and subresources. It has no groups."""
    paths = []
    for resource in resources:
        subresources = f"(?:/(?:{'|'.join(resource.subresources)}))?" if resource.subresources else ""
        paths.append(f"{re.escape(root(resource))}/{resource.plural}")
        paths.append(f"{_collection(resource)}(?:/{_NAME}{subresources})?")
    return f"^(?:{'|'.join(paths)})/?$"


def review_urls(resources: Iterable[Resource]) -> str:
    """Return the pattern of the collections of reviews of one version.

    Its groups are `group`, `namespace` and `plural`.
    """
    reviews = list(resources)
    (version,) = {review.version for review in reviews}
    groups = "|".join(dict.fromkeys(re.escape(review.group) for review in reviews))
    plurals = "|".join(review.plural for review in reviews)
    return f"^apis/(?P<group>{groups})/{version}/(?:namespaces/(?P<namespace>{_NAME})/)?(?P<plural>{plurals})/?$"


def _collection(resource: Resource) -> str:
    namespace = f"namespaces/{_NAME}/" if resource.namespaced else ""
    return f"{re.escape(root(resource))}/{namespace}{resource.plural}"


def _object(resource: Resource) -> str:
    return f"{_collection(resource)}/{_NAME}"

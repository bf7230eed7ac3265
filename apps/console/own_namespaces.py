"""Namespaces that a user may read: for forms, and for the way out of a page about the whole fleet."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from apps.api.authorization import Attributes, authorize
from apps.objects.access import may
from apps.objects.tallies import namespaces_of
from controlplane.kinds import EVICTION, KINDS, RESOURCE_BINDING
from controlplane.kinds.failover_record import RESOURCE as RECORDS

MOST: Final = 20  # namespaces whose pages are named
_PAGES: Final = (  # title, URL, and what a reader of it has to be allowed to list
    ("Queue", "/queue", KINDS[EVICTION].resource),
    ("Records", "/records", RECORDS),
    ("Readiness", "/readiness", KINDS[RESOURCE_BINDING].resource),
)


class NamespacePages(NamedTuple):
    """A namespace, and the pages about it that a user may read: title and URL of each."""

    name: str
    pages: list[tuple[str, str]]


def namespaces_with_workloads(user: Any) -> list[str]:
    """Return the namespaces that have workloads with a binding and in which the user may list them, by name."""
    found, kind = namespaces_of(RESOURCE_BINDING), KINDS[RESOURCE_BINDING]
    return found if may(user, "list", kind) else [name for name in found if may(user, "list", kind, namespace=name)]


def pages_of(user: Any) -> list[NamespacePages]:
    """Return the pages of the first namespaces that the user may read."""
    return [NamespacePages(name, _pages(user, name)) for name in namespaces_with_workloads(user)[:MOST]]


def _pages(user: Any, namespace: str) -> list[tuple[str, str]]:
    query = urlencode({"namespace": namespace})
    return [
        (title, f"{url}?{query}")
        for title, url, resource in _PAGES
        if authorize(Attributes(user, "list", resource.group, resource.plural, "", namespace)).allowed
    ]

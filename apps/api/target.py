"""Targets: the kind, namespace, object and subresource that a URL names."""

from __future__ import annotations

import msgspec

from apps.api.error_mapping import nothing_here
from apps.objects.definitions import definitions
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS, Kind
from controlplane.wire.request import parse_path
from controlplane.wire.resource import Resource


class Target(msgspec.Struct, frozen=True):
    """What a URL names. `name` "" is the collection. `namespace` "" of a namespaced kind is all namespaces."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> Resource:
        return self.kind.resource

    @property
    def ref(self) -> Ref:
        return self.kind.ref(self.namespace, self.name)


def target_of(path: str) -> Target:
    """Return the target of the path api/v1/… or apis/<group>/<version>/…. Raises NotFound for any other path."""
    place = parse_path(path.strip("/").split("/"))
    kind = None if place is None else _served(place.group, place.version, place.plural)
    if place is None or kind is None or not place.fits(kind.resource) or not _has(kind.resource, place.subresource):
        raise nothing_here()
    return Target(kind, place.namespace, place.name, place.subresource)


def _served(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a URL; None: it is not served. Kinds of users are looked up in the current definitions."""
    kind = KINDS.served(group, version, plural)
    if kind is not None and not KINDS.is_custom(kind):
        return kind
    definitions().refresh(at_once=kind is None)
    return KINDS.served(group, version, plural)


def _has(resource: Resource, subresource: str) -> bool:
    return not subresource or subresource in resource.subresources

"""What a URL names: a kind, perhaps a namespace, an object, a subresource."""

from __future__ import annotations

import msgspec

from apps.api.failures import nothing_here
from apps.objects.definitions import definitions
from controlplane.kind import KINDS, Kind
from controlplane.meta import Ref
from controlplane.wire.resource import Resource

_OF_NAMESPACE = frozenset(("status", "finalize"))  # what stands behind namespaces/<name>/ without being a kind


class Target(msgspec.Struct, frozen=True):
    """What a request is about; `name` "" is the collection, `namespace` "" of a namespaced kind all namespaces."""

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
    """Return what the path api/v1/… or apis/<group>/<version>/… names. Raises NotFound for anything else."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise nothing_here()
    namespace = ""
    # Namespaced routes go first; namespaces/<name> and what stands behind it belong to the Namespace itself.
    if rest[0] == "namespaces" and len(rest) >= 3 and not (rest[2] in _OF_NAMESPACE and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    kind = _served(group, version, rest[0])
    if kind is None or len(rest) > 3 or not all(rest) or (namespace and not kind.resource.namespaced):
        raise nothing_here()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if (name and kind.resource.namespaced and not namespace) or not _has(kind, subresource):
        raise nothing_here()
    return Target(kind, namespace, name, subresource)


def _served(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a URL; what users brought may have come or gone meanwhile."""
    kind = KINDS.served(group, version, plural)
    if kind is not None and not KINDS.is_brought(kind):
        return kind
    definitions().refresh(at_once=kind is None)
    return KINDS.served(group, version, plural)


def _has(kind: Kind, subresource: str) -> bool:
    return not subresource or subresource in kind.resource.subresources or subresource == "finalize"

"""The kinds that a member serves: built-in kinds, and those of its CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from controlplane.wire import builtin
from controlplane.wire.definition import KEY, served
from controlplane.wire.openapi import OpenAPI
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema

Document = dict[str, Any]

DEFINITIONS = KEY
# Subresources that a member serves and the control plane does not.
_OWN_SUBRESOURCES = {"Pod": ("eviction", "log"), "ServiceAccount": ("token",)}


class Catalogue:
    """Finds the Resource of a URL, and the schema of a Resource."""

    def __init__(self) -> None:
        served = map(_as_on_members, (*builtin.RESOURCES, *builtin.REVIEWS))
        self._builtin = {(resource.group, resource.version, resource.plural): resource for resource in served}
        self._custom: dict[tuple[str, str, str], tuple[Resource, Schema]] = {}
        self._ending: set[str] = set()
        self._openapi: OpenAPI | None = None

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Return the resource that is served under this name; None: there is none."""
        found = self._builtin.get((group, version, plural))
        if found is None and self._custom:
            custom = self._custom.get((group, version, plural))
            return custom[0] if custom else None
        return found

    def all(self) -> list[Resource]:
        """Return all served resources."""
        return [*self._builtin.values(), *(resource for resource, _ in self._custom.values())]

    def by_key(self, key: str) -> Resource:
        """Return the resource of a kind. Raises KeyError."""
        for resource in self.all():
            if resource.key == key:
                return resource
        raise KeyError(key)

    def schema(self, resource: Resource) -> Schema:
        """Return the schema of a resource; Schema.OPEN: it has none."""
        custom = self._custom.get((resource.group, resource.version, resource.plural))
        return custom[1] if custom else builtin.schema(resource.group, resource.version, resource.kind)

    def is_custom(self, resource: Resource) -> bool:
        """Test whether a CustomResourceDefinition defines this resource."""
        return (resource.group, resource.version, resource.plural) in self._custom

    def is_ending(self, resource: Resource) -> bool:
        """Test whether the definition of a kind is being deleted. New objects of the kind are then refused."""
        return resource.key in self._ending

    @property
    def openapi(self) -> OpenAPI:
        """Return the OpenAPI documents of all served resources."""
        if self._openapi is None:
            self._openapi = OpenAPI(self.all(), self.schema)
        return self._openapi

    def define(self, definition: Document) -> None:
        """Serve the resources of a new or changed CustomResourceDefinition."""
        self.forget(definition)
        for resource, schema in served(definition):
            self._custom[resource.group, resource.version, resource.plural] = (resource, schema)
            if definition["metadata"].get("deletionTimestamp"):
                self._ending.add(resource.key)
        self._openapi = None

    def forget(self, definition: Document) -> None:
        """Stop serving the resources of a CustomResourceDefinition."""
        group, plural = definition["spec"]["group"], definition["spec"]["names"]["plural"]
        self._ending.discard(f"{group}/{definition['spec']['names']['kind']}")
        self._custom = {key: value for key, value in self._custom.items() if (key[0], key[2]) != (group, plural)}
        self._openapi = None


def _as_on_members(resource: Resource) -> Resource:
    """Return a resource with the subresources of members. They store each object in the version in which it came."""
    own = _OWN_SUBRESOURCES.get(resource.key, ())
    made = replace(resource, stored_fields=()) if resource.stored_fields else resource
    return replace(made, subresources=(*made.subresources, *own)) if own else made

"""What a request says in its URL and its query, read the same by our API and by the simulated members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.selectors import (
    FieldSelectorTerm,
    LabelSelector,
    SelectorError,
    matches_fields,
    parse_field_selector,
    parse_label_selector,
)
from controlplane.wire import builtin
from controlplane.wire.resource import Resource, check_fields

Document = dict[str, Any]

MAX_SELECTOR = 8_192  # characters
_WHICH = frozenset(("metadata.name", "metadata.namespace"))
_NAMESPACE = builtin.resource("", "v1", "Namespace")
assert _NAMESPACE is not None
# The third part of namespaces/<name>/status is not the plural of a kind.
_SUBRESOURCES_OF_NAMESPACE = frozenset(_NAMESPACE.subresources)


class Place(NamedTuple):
    """What a path names: `name` "" is the collection, `namespace` "" all of them or none."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    def fits(self, resource: Resource) -> bool:
        """Test whether a resource can stand here: what has a namespace is named in one, what has none is not."""
        if self.namespace and not resource.namespaced:
            return False
        return not (self.name and resource.namespaced and not self.namespace)


def place_of(parts: Sequence[str]) -> Place | None:
    """Return what the path api/v1/… or apis/<group>/<version>/… names, split at its slashes; None for anything else."""
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # Namespaced routes go first; namespaces/<name> and what stands behind it belong to the Namespace itself.
    if rest[0] == "namespaces" and len(rest) >= 3 and not (rest[2] in _SUBRESOURCES_OF_NAMESPACE and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(parts):
        return None
    return Place(group, version, namespace, *rest, *[""] * (3 - len(rest)))


class Choice(msgspec.Struct, frozen=True):
    """Which objects of a list or watch are meant; a name in the URL of a watch chooses as well."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: tuple[FieldSelectorTerm, ...]

    @property
    def selects(self) -> bool:
        """Test whether a selector chooses, and not the namespace alone."""
        return bool(self.fields) or not self.labels.is_empty()

    @property
    def is_everything(self) -> bool:
        """Test whether the namespace alone decides."""
        return not self.name and not self.selects

    @property
    def needs_documents(self) -> bool:
        """Test whether the database cannot decide alone: other fields than the name, or labels compared as numbers."""
        other = any(term.field not in _WHICH for term in self.fields)
        return other or any(one.operator in ("Gt", "Lt") for one in self.labels.match_expressions)

    def takes(self, document: Document) -> bool:
        """Test whether an object is chosen."""
        metadata = document["metadata"]
        if self.namespace and metadata.get("namespace", "") != self.namespace:
            return False
        if self.name and metadata["name"] != self.name:
            return False
        if not self.labels.is_empty() and not self.labels.matches(metadata.get("labels") or {}):
            return False
        return not self.fields or matches_fields(self.fields, document)


def choice_of(
    resource: Resource, *, label_selector: str, field_selector: str, namespace: str, name: str = ""
) -> Choice:
    """Return which objects a query chooses. Raises BadRequest for selectors nobody can read, and for fields that
    objects of the kind cannot be selected by."""
    for which, text in (("labelSelector", label_selector), ("fieldSelector", field_selector)):
        if len(text) > MAX_SELECTOR:
            raise BadRequest(f"query parameter {which} has {len(text)} characters, the limit is {MAX_SELECTOR}")
    try:
        choice = Choice(namespace, name, parse_label_selector(label_selector), parse_field_selector(field_selector))
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    check_fields(resource, choice.fields)
    return choice


def about(document: Document, resource: Resource, *, namespace: str, name: str) -> Document:
    """Return the document with what only the URL says filled in. Raises BadRequest where it is about something else."""
    kind, api_version = document.get("kind") or resource.kind, document.get("apiVersion") or resource.api_version
    if (kind, api_version) != (resource.kind, resource.api_version):
        raise BadRequest(
            f"the object provided is a {kind} of {api_version}, "
            f"this URL takes {resource.kind} of {resource.api_version}"
        )
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata has to be an object")
    metadata = dict(metadata)
    for field, said in (("namespace", namespace), ("name", name)):
        if said and metadata.get(field) not in (None, "", said):
            raise BadRequest(
                f"the {field} of the provided object does not match the {field} sent on the request: "
                f"metadata.{field} is {metadata[field]!r}, the URL says {said!r}"
            )
        if said:
            metadata[field] = said
    return {**document, "kind": kind, "apiVersion": api_version, "metadata": metadata}

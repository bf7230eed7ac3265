"""The path and the selectors of a request, for the API and for the simulated members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.selectors import (
    EVERYTHING,
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


class ResourcePath(NamedTuple):
    """The parts of a resource path. name "": the collection. namespace "": all namespaces, or a cluster-scoped kind."""

    group: str
    version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    def fits(self, resource: Resource) -> bool:
        """Test whether the path is valid for a resource: only objects of namespaced kinds have a namespace."""
        if self.namespace and not resource.namespaced:
            return False
        return not (self.name and resource.namespaced and not self.namespace)


def parse_path(parts: Sequence[str]) -> ResourcePath | None:
    """Return the parts of the path api/v1/… or apis/<group>/<version>/…, given split at its slashes.

    None: it is not the path of a resource.
    """
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # namespaces/<name> and namespaces/<name>/status are the Namespace itself; longer paths are inside the namespace.
    if rest[0] == "namespaces" and len(rest) >= 3 and not (rest[2] in _SUBRESOURCES_OF_NAMESPACE and len(rest) == 3):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(parts):
        return None
    return ResourcePath(group, version, namespace, *rest, *[""] * (3 - len(rest)))


class Choice(msgspec.Struct, frozen=True):
    """The selection of a list or watch. `name` is a name in the URL of a watch; "": none."""

    namespace: str
    name: str
    labels: LabelSelector
    fields: tuple[FieldSelectorTerm, ...]

    @property
    def selects(self) -> bool:
        """Test whether there is a label selector or field selector."""
        return bool(self.fields) or not self.labels.is_empty()

    @property
    def is_everything(self) -> bool:
        """Test whether all objects of the namespace are selected."""
        return not self.name and not self.selects

    @property
    def selects_content(self) -> bool:
        """Test whether the field selector uses a field other than the name and the namespace."""
        return any(term.field not in _WHICH for term in self.fields)

    @property
    def place(self) -> Choice:
        """Return the selection without its selectors."""
        return Choice(self.namespace, self.name, EVERYTHING, ())

    @property
    def needs_documents(self) -> bool:
        """Test whether documents must be read: a selector uses a field other than the name, or compares numbers."""
        return self.selects_content or any(
            requirement.operator in ("Gt", "Lt") for requirement in self.labels.match_expressions
        )

    def takes(self, document: Document) -> bool:
        """Test whether a document is selected."""
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
    """Return the selection of a query.

    Raises BadRequest for a selector that cannot be parsed, and for fields that this kind does not support.
    """
    for which, text in (("labelSelector", label_selector), ("fieldSelector", field_selector)):
        if len(text) > MAX_SELECTOR:
            raise BadRequest(f"query parameter {which} has {len(text)} characters, the limit is {MAX_SELECTOR}")
    try:
        choice = Choice(namespace, name, parse_label_selector(label_selector), parse_field_selector(field_selector))
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    check_fields(resource, choice.fields)
    if not resource.stored_fields or not choice.fields:
        return choice
    names = dict(resource.stored_fields)
    fields = tuple(msgspec.structs.replace(term, field=names.get(term.field, term.field)) for term in choice.fields)
    return msgspec.structs.replace(choice, fields=fields)


def complete_from_url(document: Document, resource: Resource, *, namespace: str, name: str) -> Document:
    """Return the document with kind, name and namespace from the URL. Raises BadRequest if it has other values."""
    kind, api_version = document.get("kind") or resource.kind, document.get("apiVersion") or resource.api_version
    if (kind, api_version) != (resource.kind, resource.api_version):
        raise BadRequest(
            f"the object provided is a {kind} of {api_version}, "
            f"this URL takes {resource.kind} of {resource.api_version}"
        )
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    metadata = dict(metadata)
    for field, value in (("namespace", namespace), ("name", name)):
        if value and metadata.get(field) not in (None, "", value):
            raise BadRequest(
                f"the {field} of the provided object does not match the {field} sent on the request: "
                f"metadata.{field} is {metadata[field]!r}, the URL has {value!r}"
            )
        if value:
            metadata[field] = value
    return {**document, "kind": kind, "apiVersion": api_version, "metadata": metadata}


def metadata_of(document: Document) -> Document:
    """Return a copy of the metadata of a document; {}: it has none. Raises BadRequest if it is not an object."""
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadRequest(f"metadata must be an object, not {type(metadata).__name__}")
    return dict(metadata)

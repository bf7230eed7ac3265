"""Field ownership of objects that are served in several versions.

An entry of metadata.managedFields names its fields as they are called in the version that its manager wrote. A write
through another version is therefore converted to the version of each entry before its fields are compared or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from controlplane.apimachinery.errors import StatusError
from controlplane.wire.fieldset import Fields
from controlplane.wire.schema import Schema
from controlplane.wire.structured import METADATA, compare, prune

Document = dict[str, Any]


class Version(NamedTuple):
    """A version in which a kind is served: its schema, and the conversion of a document of another version to it."""

    schema: Schema
    convert: Callable[[Document], Document]


Versions = Callable[[str], Version | None]
"""Return the version with an apiVersion. None: the kind is not served in it."""


def only_version(schema: Schema) -> Versions:
    """Return the versions of a kind with a single version: every apiVersion in managedFields means that version."""
    return lambda api_version: Version(schema, lambda document: document)


class Differences:
    """The differences between an object before and after a write, in each version. Each is computed once.

    The documents are in the version of the write. They are converted when a version is asked for. `needs_all`: the
    error of a conversion is raised. Otherwise there are no known differences in that version.
    """

    def __init__(self, before: Document, after: Document, versions: Versions, *, needs_all: bool = True) -> None:
        self._before = before
        self._after = after
        self._versions = versions
        self._needs_all = needs_all
        self._found: dict[str, tuple[Fields, Fields] | None] = {}

    def in_version(self, api_version: str) -> tuple[Fields, Fields] | None:
        """Return the paths that the write adds or changes, and those that it removes. None: no such version."""
        if api_version not in self._found:
            version = self._versions(api_version)
            self._found[api_version] = None if version is None else self._compared(version)
        return self._found[api_version]

    def _compared(self, version: Version) -> tuple[Fields, Fields]:
        try:
            before = version.convert(self._before) if self._before else self._before
            after = version.convert(self._after)
        except StatusError:
            if self._needs_all:
                raise
            return {}, {}
        return compare(before, after, version.schema)


def pruned(
    document: Document, lost: Fields, lost_in: str, kept: Iterable[tuple[str, Fields]], versions: Versions, to: str
) -> Document:
    """Return a document without the fields of a manager that none of the sets in `kept` has.

    lost_in: the apiVersion of the names in `lost`. kept: pairs of an apiVersion and fields that are named as in it.
    to: the apiVersion of `document` and of the result. Fields of a version that is not served are not removed.
    """
    version, result = versions(lost_in), versions(to)
    if version is None or result is None:
        return document
    by_version: dict[str, list[Fields]] = {lost_in: [], to: []}
    for api_version, fields in kept:
        by_version.setdefault(api_version, []).append(fields)
    made = prune(version.convert(document), lost, by_version.pop(lost_in), version.schema)
    last = by_version.pop(to, None)
    for api_version, sets in [*by_version.items(), *([] if last is None else [(to, last)])]:
        other = versions(api_version)
        if other is None:
            continue
        whole, here = other.convert(document), other.convert(made)
        _, removed = compare(whole, here, other.schema)
        # The conversion of the pruned document may also have changed values, and values that are kept may
        # have been changed by it. Only what a set in `kept` has is taken from the whole document.
        made = prune(whole, removed, sets, other.schema)
    return result.convert(made)


_merged_schemas: WeakKeyDictionary[Schema, Schema] = WeakKeyDictionary()  # weak: custom schemas come and go


def with_metadata(schema: Schema) -> Schema:
    """Return the schema with the merge rules for lists and maps in metadata, which schemas of custom kinds lack."""
    declared = schema.properties.get("metadata")
    if declared is not None and "finalizers" in declared.properties:
        return schema
    found = _merged_schemas.get(schema)
    if found is None:
        node = {**schema.node, "properties": {**schema.node.get("properties", {}), "metadata": METADATA.node}}
        found = _merged_schemas[schema] = Schema(node, schema.components)
    return found

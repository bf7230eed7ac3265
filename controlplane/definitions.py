"""Definitions: the kinds users bring with CustomResourceDefinitions, served as templates from then on (S002, D15)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from controlplane.kind import KINDS, Kind
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template import Template
from controlplane.meta import Ref
from controlplane.wire import definition
from controlplane.wire.definition import KEY
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema


def kinds_of(definitions: Iterable[Template]) -> Iterator[Kind]:
    """Yield the kinds definitions bring, in order of their names: one version each, the stored one where it is served.

    A definition that cannot be read brings nothing; it is refused when it is written.
    """
    for one in sorted(definitions, key=lambda found: found.metadata.name):
        if one.metadata.deletion_timestamp is not None:
            continue
        found = _served(one.content)
        if found is not None:
            yield _kind(found)


def _kind(resource: Resource) -> Kind:
    """Return the kind of a resource: its objects are templates like any other. Schema rules are not enforced."""
    return Kind(
        resource=resource,
        type=Template,
        schema=lambda: Schema.OPEN,
        indexes=KINDS[NAMESPACE].indexes,  # those of every template
        has_status="status" in resource.subresources,
    )


def _served(content: dict[str, Any]) -> Resource | None:
    try:
        stored = definition.storage_version(content)
        found = [resource for resource, _ in definition.served(content)]
    except (KeyError, TypeError, AttributeError, StopIteration):
        return None
    return next((one for one in found if one.version == stored), found[0] if found else None)


def is_definition(ref: Ref) -> bool:
    """Test whether a reference names a CustomResourceDefinition."""
    return ref.kind == KEY

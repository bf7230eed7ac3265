"""Definitions: the kinds users bring with CustomResourceDefinitions, served as templates from then on (S002, D15)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane.kind import KINDS, Kind
from controlplane.kinds import NAMESPACE
from controlplane.kinds.template import Template
from controlplane.kinds.template.claim_column import with_policy
from controlplane.wire import definition
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema
from controlplane.wire.structural import filled


def kinds_of(definitions: Iterable[Template]) -> Iterator[Kind]:
    """Yield the kinds definitions bring, in order of their names: one version each, the stored one where it is served.

    A definition that cannot be read brings nothing; it is refused when it is written. One whose names are taken brings
    nothing until they are free, one that is being deleted its kind until the last object of it has gone.
    """
    for one in sorted(definitions, key=lambda found: found.metadata.name):
        found = kind_of(one)
        if found is not None:
            yield found


def kind_of(one: Template) -> Kind | None:
    """Return the kind a definition brings, None where it brings none."""
    if is_refused(one):
        return None
    found = _served(one.content)
    return None if found is None else _kind(*found, is_ending=one.metadata.deletion_timestamp is not None)


def is_refused(one: Template) -> bool:
    """Test whether a definition wants names that others have."""
    return definition.is_refused({"status": one.status})


def _kind(resource: Resource, schema: Schema, *, is_ending: bool) -> Kind:
    """Return the kind of a resource: its objects are templates like any other."""
    return Kind(
        resource=with_policy(resource),
        type=Template,
        schema=lambda: schema,
        fill=lambda doc: filled(doc, schema),
        indexes=KINDS[NAMESPACE].indexes,  # those of every template
        has_status="status" in resource.subresources,
        is_ending=is_ending,
    )


def _served(content: dict[str, Any]) -> tuple[Resource, Schema] | None:
    try:
        stored = definition.storage_version(content)
        found = definition.served(content)
    except (KeyError, TypeError, AttributeError, StopIteration):
        return None
    return next((one for one in found if one[0].version == stored), found[0] if found else None)


def settled(one: Template, taken: Iterable[Resource], *, now: datetime) -> Template:
    """Return a definition with the status it deserves: Established where none of its names is among those taken.

    Raises KeyError, TypeError, AttributeError or StopIteration where it was not validated before.
    """
    document = {"metadata": {"deletionTimestamp": one.metadata.deletion_timestamp}, "status": one.status, **one.content}
    name = definition.conflict(document, taken)
    return replace(one, status=definition.status_of(document, taken_name=name, now=now))


def taken_from(one: Template) -> Iterator[Resource]:
    """Yield what this process serves beside the kind a definition itself brings."""
    own = (one.spec.get("group"), (one.spec.get("names") or {}).get("plural"))
    for kind in KINDS:
        if not (KINDS.is_custom(kind) and (kind.resource.group, kind.resource.plural) == own):
            yield kind.resource

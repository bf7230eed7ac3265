"""Kinds that users define with CustomResourceDefinitions. Their objects are served and propagated as templates."""

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
from controlplane.wire.document_check import without_nulls
from controlplane.wire.prune import prune
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema
from controlplane.wire.structural import filled

Document = dict[str, Any]


def kinds_of(definitions: Iterable[Template]) -> Iterator[Kind]:
    """Yield the kinds of these definitions in the order of their names: in the stored version, with the other served
    versions in `versions`.

    A definition that cannot be read has no kind; admission refuses such a write. A definition whose names are taken has
    no kind until they are free. A definition that is being deleted has its kind until the last object is gone.
    """
    for crd in sorted(definitions, key=lambda crd: crd.metadata.name):
        kind = kind_of(crd)
        if kind is not None:
            yield kind


def kind_of(crd: Template) -> Kind | None:
    """Return the kind of a definition. None: its names are taken, it serves no version, or it cannot be read."""
    if is_refused(crd):
        return None
    is_ending, is_edited = crd.metadata.deletion_timestamp is not None, crd.metadata.generation > 1
    try:
        stored, served = definition.stored(crd.content), definition.served(crd.content)
        webhook, names = definition.conversion_webhook(crd.content), crd.content["spec"]["versions"]
    except (KeyError, TypeError, AttributeError, StopIteration):
        return None
    if not served:
        return None
    converts = len(names) > 1
    kinds = [_kind(*one, is_ending=is_ending, is_edited=is_edited, converts=converts) for one in (stored, *served)]
    home, others = kinds[0], tuple(one for one in kinds[1:] if one.resource.version != kinds[0].resource.version)
    is_served = len(others) < len(served)
    return replace(home, versions=others, is_served=is_served, conversion=webhook)


def is_refused(crd: Template) -> bool:
    """Test whether a definition is refused because its names are taken by other kinds."""
    return definition.is_refused({"status": crd.status})


def _kind(resource: Resource, schema: Schema, *, is_ending: bool, is_edited: bool, converts: bool) -> Kind:
    """Return the kind of a resource. Its objects are templates."""
    return Kind(
        resource=with_policy(resource),
        type=Template,
        schema=lambda: schema,
        fill=lambda doc: filled(doc, schema),
        indexes=KINDS[NAMESPACE].indexes,  # the indexes of every template
        has_status="status" in resource.subresources,
        is_ending=is_ending,
        is_edited=is_edited,
        converts=converts,
    )


def as_defined(kind: Kind, document: Document) -> Document:
    """Return a stored object as its present definition shows it: with its defaults, and without unknown fields."""
    schema = kind.schema()
    return kind.fill(prune(without_nulls(document, schema), schema))


def settled(crd: Template, taken: Iterable[Resource], *, now: datetime) -> Template:
    """Return a definition with its status: Established if none of its names is used by a resource of `taken`.

    Raises KeyError, TypeError, AttributeError or StopIteration if the definition was not validated before.
    """
    document = {"metadata": {"deletionTimestamp": crd.metadata.deletion_timestamp}, "status": crd.status, **crd.content}
    name = definition.conflict(document, taken)
    return replace(crd, status=definition.status_of(document, taken_name=name, now=now))


def taken_from(crd: Template) -> Iterator[Resource]:
    """Yield the resources whose names a definition may not take: all that this process serves, without its own."""
    own = (crd.spec.get("group"), (crd.spec.get("names") or {}).get("plural"))
    for kind in KINDS:
        if not (KINDS.is_custom(kind) and (kind.resource.group, kind.resource.plural) == own):
            yield kind.resource

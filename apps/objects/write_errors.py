"""Errors of writes that meet no object, another object of the name, or another write."""

from __future__ import annotations

from apps.objects.store import DjangoStore
from controlplane.apimachinery.errors import AlreadyExists, Conflict, NotFound
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS


def missing(ref: Ref) -> NotFound:
    """Return the error for an object that does not exist."""
    resource = KINDS[ref.kind].resource
    return NotFound.of(resource.plural, ref.name, group=resource.group)


def taken(store: DjangoStore, ref: Ref) -> AlreadyExists:
    """Return the error for a name that is taken. It says whether the object with that name is being deleted."""
    resource, found = KINDS[ref.kind].resource, store.get([ref], unopened=True).get(ref)
    is_going = found is not None and found.metadata.deletion_timestamp is not None
    return AlreadyExists.of(resource.plural, ref.name, group=resource.group, is_going=is_going)


def conflict(ref: Ref, why: str = "") -> Conflict:
    """Return the error for a write that lost against other writes."""
    resource = KINDS[ref.kind].resource
    return Conflict.of(resource.plural, ref.name, group=resource.group, why=why)

"""Permanent ids: a label that identifies a binding or a Work for its whole life."""

from __future__ import annotations

from typing import TypeVar

from controlplane.apimachinery.meta import Object

T = TypeVar("T", bound=Object)


def with_permanent_id(new: T, old: T | None, label: str) -> T:
    """Return an object with its permanent id in a label: the stored id if there is one, else the object's uid.

    `old` is the stored object; None: the object is being created.
    """
    labels = new.metadata.labels
    known = old.metadata.labels.get(label) if old is not None else None
    if known is not None and labels.get(label) != known:
        return new.with_meta(labels={**labels, label: known})
    return new if label in labels else new.with_meta(labels={**labels, label: new.metadata.uid})

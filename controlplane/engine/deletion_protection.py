"""Objects that are protected from deletion by their label [deletion-protection]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Object
from controlplane.apimachinery.names import DELETION_PROTECTED, DELETION_PROTECTED_LABEL
from controlplane.kind import KINDS

OPEN, KEPT, BLOCKING, PROTECTED, DELETED = range(5)
"""The order in which the dependents of an owner are looked at: those of which many may stay for long come last."""


def deletion_turn(obj: Object, *, kept_by: str = "") -> int:
    """Return the place of an object in that order. `kept_by`: the uid of an owner that keeps what it owns; "": none.

    PROTECTED and DELETED: it stays for now, because of its label, or of finalizers while it is being deleted. BLOCKING:
    so does one that an owner may have to wait for.
    """
    references = obj.metadata.owner_references
    is_deleted = obj.metadata.deletion_timestamp is not None
    if is_deleted or is_protected(obj):
        blocking = any(reference.block_owner_deletion for reference in references)
        return BLOCKING if blocking else DELETED if is_deleted else PROTECTED
    return KEPT if kept_by and any(reference.uid == kept_by for reference in references) else OPEN


def by_deletion_turn(objects: Iterable[Object], *, kept_by: str) -> list[Object]:
    """Return objects in that order, and those with the same place in the order of their references."""
    return sorted(objects, key=lambda obj: (deletion_turn(obj, kept_by=kept_by), obj.ref))


def is_protected(obj: Object) -> bool:
    """Test whether the label of an object protects it from deletion. Only the value Always does."""
    return obj.metadata.labels.get(DELETION_PROTECTED_LABEL) == DELETION_PROTECTED


def check_deletions(objects: Iterable[Object]) -> None:
    """Raise Forbidden if one of the objects that a user wants to delete is protected. The text begins as Karmada's."""
    for obj in objects:
        if is_protected(obj):
            kind = KINDS.get(obj.ref.kind)
            plural = obj.kind.lower() if kind is None else kind.resource.plural
            name, namespace = obj.metadata.name, obj.metadata.namespace
            where = f" -n {namespace}" if namespace else ""
            raise Forbidden(
                'admission webhook "resourcedeletionprotection.karmada.io" denied the request: This resource is '
                f"protected, please make sure to remove the label: {DELETION_PROTECTED_LABEL} "
                f"(kubectl label {plural} {name}{where} {DELETION_PROTECTED_LABEL}-)",
                kind=plural,
                name=name,
            )

"""Objects that are protected from deletion by their label [deletion-protection]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Object
from controlplane.apimachinery.names import DELETION_PROTECTED, DELETION_PROTECTED_LABEL
from controlplane.kind import KINDS

OPEN, PROTECTED, DELETED = 0, 1, 2
"""The order in which the dependents of an owner are looked at: those of which many may stay for long come last."""


def deletion_turn(obj: Object) -> int:
    """Return the place of an object in that order. DELETED: it is being deleted already."""
    if obj.metadata.deletion_timestamp is not None:
        return DELETED
    return PROTECTED if is_protected(obj) else OPEN


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

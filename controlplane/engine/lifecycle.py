"""How objects are created and deleted: the first status of a Namespace, and the finalizers that delay a deletion."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Object, to_seconds
from controlplane.apimachinery.names import (
    CLUSTER_NAMESPACE,
    KUBE_PUBLIC_NAMESPACE,
    KUBE_SYSTEM_NAMESPACE,
    NAMESPACE_CONTENT_FINALIZER,
    SYSTEM_NAMESPACE,
)
from controlplane.engine.decision import Delete, Put, deleting, with_new_generation
from controlplane.kinds import DEFINITION, EVENT, NAMESPACE
from controlplane.wire.definition import CLEANUP_FINALIZER

PERMANENT_NAMESPACES: Final = (
    "default",
    KUBE_SYSTEM_NAMESPACE,
    KUBE_PUBLIC_NAMESPACE,
    SYSTEM_NAMESPACE,
    CLUSTER_NAMESPACE,
)
"""The namespaces that every installation has. They cannot be deleted."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"

BACKGROUND: Final = "Background"
FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_FINALIZER_OF_POLICY = {FOREGROUND: FOREGROUND_FINALIZER, ORPHAN: ORPHAN_FINALIZER}
_KINDS_WITHOUT_DEPENDENTS = (EVENT,)
# The finalizer that keeps an object until a controller has deleted the objects that belong to it.
_CONTENT_FINALIZERS = {NAMESPACE: NAMESPACE_CONTENT_FINALIZER, DEFINITION: CLEANUP_FINALIZER}


def prepare_created(obj: Any) -> Any:
    """Return a new object as it is first stored.

    A Namespace gets the phase Active and the label kubernetes.io/metadata.name. Other kinds are returned unchanged.
    """
    if obj.ref.kind != NAMESPACE:
        return obj
    labels = {**obj.metadata.labels, NAME_LABEL: obj.metadata.name}
    return replace(obj.with_meta(labels=labels), status={"phase": "Active"})


def request_deletion(obj: Object, *, now: datetime, policy: str = "", exact: bool = False) -> Put | Delete:
    """Return the change that deletes an object, or that marks it as being deleted if a finalizer must be waited for.

    A Namespace waits for the objects in it, a CustomResourceDefinition for the objects of its kind. With the
    propagationPolicy ("" is the default) Foreground or Orphan, an owner waits for its dependents
    (`controllers.owners`).
    Raises Forbidden for a namespace that every installation has.
    """
    being_deleted = obj.metadata.deletion_timestamp is not None
    if obj.ref.kind == NAMESPACE and obj.metadata.name in PERMANENT_NAMESPACES and not being_deleted:
        name = obj.metadata.name
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted', kind="namespaces", name=name
        )
    finalizers = _finalizers(obj, policy, being_deleted=being_deleted)
    if finalizers == obj.metadata.finalizers:
        return replace(deleting(obj, now=now), exact=exact)
    marked: Any = obj.with_meta(
        deletion_timestamp=obj.metadata.deletion_timestamp or to_seconds(now),
        deletion_grace_period_seconds=0,
        finalizers=finalizers,
    )
    if not being_deleted:
        marked = with_new_generation(marked)
    if obj.ref.kind == NAMESPACE:
        marked = replace(marked, status={**marked.status, "phase": "Terminating"})
    return Put(marked, obj, exact=exact)


def _finalizers(obj: Object, policy: str, *, being_deleted: bool) -> tuple[str, ...]:
    """Return the finalizers of an object that is deleted with a propagationPolicy.

    The policy of a second deletion replaces that of the first.
    """
    kept = obj.metadata.finalizers
    if policy and obj.ref.kind not in _KINDS_WITHOUT_DEPENDENTS:
        kept = tuple(name for name in kept if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER))
        kept = (*kept, _FINALIZER_OF_POLICY[policy]) if policy in _FINALIZER_OF_POLICY else kept
    content = _CONTENT_FINALIZERS.get(obj.ref.kind)
    if content is None or being_deleted:
        return kept
    return (*(name for name in kept if name != content), content)

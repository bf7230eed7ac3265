"""How objects begin and end: a Namespace is Active at once, and stays until what is in it has gone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import Object, to_seconds
from controlplane.apimachinery.names import (
    CLUSTER_NAMESPACE,
    KUBE_SYSTEM_NAMESPACE,
    NAMESPACE_CONTENT_FINALIZER,
    SYSTEM_NAMESPACE,
)
from controlplane.engine.decision import Delete, Put, deleting
from controlplane.kinds import DEFINITION, EVENT, NAMESPACE
from controlplane.wire.definition import CLEANUP_FINALIZER

PERMANENT_NAMESPACES: Final = ("default", KUBE_SYSTEM_NAMESPACE, SYSTEM_NAMESPACE, CLUSTER_NAMESPACE)
"""The namespaces every installation has."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"

BACKGROUND: Final = "Background"
FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_OF_POLICY = {FOREGROUND: FOREGROUND_FINALIZER, ORPHAN: ORPHAN_FINALIZER}
_OWN_NOTHING = (EVENT,)
# What holds an object until its controller has done away with what belongs to it.
_HOLDS = {NAMESPACE: NAMESPACE_CONTENT_FINALIZER, DEFINITION: CLEANUP_FINALIZER}


def prepare_created(obj: Any) -> Any:
    """Return a new object as it is stored: a Namespace Active and with its name as a label, others as they are."""
    if obj.ref.kind != NAMESPACE:
        return obj
    labels = {**obj.metadata.labels, NAME_LABEL: obj.metadata.name}
    return replace(obj.with_meta(labels=labels), status={"phase": "Active"})


def request_deletion(obj: Object, *, now: datetime, policy: str = "", exact: bool = False) -> Put | Delete:
    """Return the deletion of an object: a Namespace waits for what is in it, a CustomResourceDefinition for the objects
    of its kind, and with the policies Foreground and Orphan an owner for what it owns (`controllers.owners`).

    Raises Forbidden for namespaces every installation has.
    """
    going = obj.metadata.deletion_timestamp is not None
    if obj.ref.kind == NAMESPACE and obj.metadata.name in PERMANENT_NAMESPACES and not going:
        name = obj.metadata.name
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted', kind="namespaces", name=name
        )
    finalizers = _finalizers(obj, policy, going=going)
    if finalizers == obj.metadata.finalizers:
        return replace(deleting(obj, now=now), exact=exact)
    held: Any = obj.with_meta(
        deletion_timestamp=obj.metadata.deletion_timestamp or to_seconds(now),
        deletion_grace_period_seconds=0,
        finalizers=finalizers,
    )
    if obj.ref.kind == NAMESPACE:
        held = replace(held, status={**held.status, "phase": "Terminating"})
    return Put(held, obj, exact=exact)


def _finalizers(obj: Object, policy: str, *, going: bool) -> tuple[str, ...]:
    """Return what is to hold an object that goes. A policy replaces the one asked for before."""
    kept = obj.metadata.finalizers
    if policy and obj.ref.kind not in _OWN_NOTHING:
        kept = tuple(one for one in kept if one not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER))
        kept = (*kept, _OF_POLICY[policy]) if policy in _OF_POLICY else kept
    hold = _HOLDS.get(obj.ref.kind)
    return (*(one for one in kept if one != hold), hold) if hold is not None and not going else kept

"""How objects begin and end: a Namespace is Active at once, and stays until what is in it has gone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from controlplane.decision import Delete, Put, deleting
from controlplane.errors import Forbidden
from controlplane.kinds import DEFINITION, NAMESPACE
from controlplane.meta import Object, to_seconds
from controlplane.names import CLUSTER_NAMESPACE, NAMESPACE_CONTENT_FINALIZER, SYSTEM_NAMESPACE
from controlplane.wire.definition import CLEANUP_FINALIZER

ALWAYS: Final = ("default", SYSTEM_NAMESPACE, CLUSTER_NAMESPACE)
"""The namespaces every installation has."""
NAME_LABEL: Final = "kubernetes.io/metadata.name"

# What holds an object until its controller has done away with what belongs to it.
_HOLDS = {NAMESPACE: NAMESPACE_CONTENT_FINALIZER, DEFINITION: CLEANUP_FINALIZER}


def opened(obj: Any) -> Any:
    """Return a new object as it is stored: a Namespace Active and with its name as a label, others as they are."""
    if obj.ref.kind != NAMESPACE:
        return obj
    labels = {**obj.metadata.labels, NAME_LABEL: obj.metadata.name}
    return replace(obj.with_meta(labels=labels), status={"phase": "Active"})


def deletion(obj: Object, *, now: datetime, exact: bool = False) -> Put | Delete:
    """Return the deletion of an object: a Namespace waits for what is in it, a CustomResourceDefinition for the objects
    of its kind. Raises Forbidden for namespaces every installation has."""
    hold = _HOLDS.get(obj.ref.kind)
    if hold is None or obj.metadata.deletion_timestamp is not None:
        return replace(deleting(obj, now=now), exact=exact)
    if obj.ref.kind == NAMESPACE and obj.metadata.name in ALWAYS:
        name = obj.metadata.name
        raise Forbidden(
            f'namespaces "{name}" is forbidden: this namespace may not be deleted', kind="namespaces", name=name
        )
    return Put(_held(obj, hold, now=now), obj, exact=exact)


def _held(obj: Any, hold: str, *, now: datetime) -> Any:
    kept = [one for one in obj.metadata.finalizers if one != hold]
    held = obj.with_meta(deletion_timestamp=to_seconds(now), deletion_grace_period_seconds=0, finalizers=(*kept, hold))
    if obj.ref.kind == NAMESPACE:
        return replace(held, status={**obj.status, "phase": "Terminating"})
    return held

"""What can be read of a Cluster whose stored document cannot be decoded as a whole.

Who looks at all clusters gets this for one of them: a cluster that is missing would count as deleted, and what is on it
would be placed again. It counts as a cluster to which access is lost [lost-access]: nothing new is placed there,
nothing leaves it for that reason, and no copy on it counts as healthy.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from controlplane.apimachinery.meta import Condition, ObjectMeta
from controlplane.kinds.cluster import (
    ACCESS_LOST,
    ACCESS_LOST_KEY,
    NO_SCHEDULE,
    UNREADABLE,
    Cluster,
    ClusterSpec,
    ClusterStatus,
    Taint,
)

Part = TypeVar("Part", bound=msgspec.Struct)


def readable_part(document: Any, *, name: str, why: str) -> Cluster:
    """Return what can be read of a decoded JSON document, without the fields that cannot. It must not be stored.

    `why`: why it cannot be read as a whole.
    """
    parts = document if isinstance(document, dict) else {}
    stated = readable_fields(ObjectMeta, parts.get("metadata"))
    metadata = msgspec.structs.replace(stated, name=name, resource_version="")
    spec, status = readable_fields(ClusterSpec, parts.get("spec")), readable_fields(ClusterStatus, parts.get("status"))
    kept = tuple(one for one in status.conditions if one.type != ACCESS_LOST)
    lost = Condition(ACCESS_LOST, "True", UNREADABLE, why)
    closed = (*(taint for taint in spec.taints if taint.key != ACCESS_LOST_KEY), Taint(ACCESS_LOST_KEY, NO_SCHEDULE))
    return Cluster(
        "cluster.karmada.io/v1alpha1",
        "Cluster",
        metadata,
        msgspec.structs.replace(spec, taints=closed),
        msgspec.structs.replace(status, conditions=(*kept, lost)),
    )


def readable_fields(type_: type[Part], value: Any) -> Part:
    """Return a value of a type with the fields that can be read; the others have their defaults."""
    found = {}
    for field in msgspec.structs.fields(type_):
        if isinstance(value, dict) and field.encode_name in value:
            try:
                found[field.name] = msgspec.convert(value[field.encode_name], field.type)
            except msgspec.ValidationError:
                continue
    return type_(**found)

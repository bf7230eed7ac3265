"""All tables of types."""

from __future__ import annotations

from controlplane.kube import (
    admission_types,
    config_types,
    container_types,
    meta_types,
    network_types,
    pod_types,
    scaling_types,
    service_types,
    storage_types,
    volume_types,
    workload_types,
)
from controlplane.kube.rules import Type

TYPES: dict[str, Type] = {
    **meta_types.TYPES,
    **container_types.TYPES,
    **volume_types.TYPES,
    **pod_types.TYPES,
    **workload_types.TYPES,
    **service_types.TYPES,
    **network_types.TYPES,
    **scaling_types.TYPES,
    **storage_types.TYPES,
    **config_types.TYPES,
    **admission_types.TYPES,
}

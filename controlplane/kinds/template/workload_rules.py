"""Validation of built-in workloads beyond their schema: the numbers that the scheduler divides must not be negative."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.kinds.template import Template
from controlplane.settings import Settings

COUNTED = {
    "apps/Deployment": ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
    "apps/StatefulSet": ("replicas", "minReadySeconds", "revisionHistoryLimit"),
    "apps/ReplicaSet": ("replicas", "minReadySeconds"),
    "apps/DaemonSet": ("minReadySeconds", "revisionHistoryLimit"),
    "ReplicationController": ("replicas", "minReadySeconds"),
    "batch/Job": ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"),
}


def validate(new: Template, old: Template | None, settings: Settings) -> list[Cause]:
    """Return every cause to refuse the spec of a workload. An unchanged spec is not validated again."""
    if old is not None and old.spec == new.spec:
        return []
    return list(_counts(new.spec, COUNTED[new.ref.kind]))


def _counts(spec: dict[str, Any], fields: tuple[str, ...]) -> Iterator[Cause]:
    for field in fields:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            yield invalid(f"spec.{field}", value, "must be greater than or equal to 0")

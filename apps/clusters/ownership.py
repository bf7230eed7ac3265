"""Who manages an object on a member: a user there, Lifeboat, or Lifeboat for another Cluster [member-writes]."""

from __future__ import annotations

from typing import Any

from apps.clusters.watch_events import object_of
from controlplane.apimachinery.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    WORK_NAMESPACE_ANNOTATION,
    cluster_of_execution_namespace,
    is_execution_namespace,
)
from controlplane.clusters.questions import NOT_OURS, Answer

Document = dict[str, Any]


def is_ours(obj: Document) -> bool:
    """Return whether an object of a member is managed by Lifeboat."""
    labels = object_of(obj)["metadata"].get("labels") or {}
    return isinstance(labels, dict) and labels.get(MANAGED_LABEL) == MANAGED_LABEL_VALUE


def belongs_to(cluster: str, obj: Document) -> bool:
    """Return whether an object of a member is managed by Lifeboat for this Cluster.

    A member that is joined under two names has the objects of both. Those that name no Cluster belong to each.
    """
    return is_ours(obj) and made_for(obj) in ("", cluster)


def not_ours(obj: Document) -> Answer:
    """Return the answer for an object that does not belong to the Cluster of its question."""
    other = made_for(obj) if is_ours(obj) else ""
    whose = "is not managed by Lifeboat"
    if other:
        whose = f"belongs to cluster {other} of Lifeboat (is the same cluster joined twice?)"
    return Answer(
        409,
        problem=f"an object of that name exists on the cluster and {whose}; set conflictResolution: Overwrite in the "
        "policy to take it over",
        reason=NOT_OURS,
    )


def made_for(obj: Document) -> str:
    """Return the Cluster that an object names as the one it was made for; "": it names none."""
    notes = object_of(obj)["metadata"].get("annotations") or {}
    namespace = notes.get(WORK_NAMESPACE_ANNOTATION) if isinstance(notes, dict) else None
    if not isinstance(namespace, str) or not is_execution_namespace(namespace):
        return ""
    return cluster_of_execution_namespace(namespace)

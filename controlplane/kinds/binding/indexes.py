"""The indexes of bindings: by the clusters, policies and dependencies they name."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.names import DEPENDENCIES_ANNOTATION
from controlplane.kind import Index
from controlplane.kinds.binding import Binding, affinity_index, colocation_index, origin
from controlplane.kinds.binding.quota_index import OVER_QUOTA, over_quota_keys
from controlplane.kinds.policy.claim_index import claimed_by

SELECTED = "*"
"""The name in a reference to all objects that a label selector chooses. No object can have this name."""


def _placed_on(binding: Binding) -> list[str]:
    """Return the clusters that are targets of a binding, and those its eviction tasks are about."""
    tasks = (task.from_cluster for task in binding.spec.graceful_eviction_tasks)
    return sorted({*(target.name for target in binding.spec.clusters), *tasks})


def _leaving_clusters(binding: Binding) -> list[str]:
    """Return the clusters of a binding's eviction tasks, and "to:<name>" of each target whose copy has to be healthy
    before a task is cleared."""
    tasks = binding.spec.graceful_eviction_tasks
    targets = {f"to:{target.name}" for target in binding.spec.clusters} if tasks else set()
    return sorted({task.from_cluster for task in tasks} | targets)


def _required_by(binding: Binding) -> list[str]:
    return sorted({f"{parent.namespace}/{parent.name}" for parent in binding.spec.required_by})


def _depends_on(binding: Binding) -> list[str]:
    """Return the objects that the template of a binding needs, as its dependencies annotation lists them."""
    text = binding.metadata.annotations.get(DEPENDENCIES_ANNOTATION)
    if text is None:
        return []
    try:
        listed = msgspec.json.decode(text, type=list[dict[str, Any]])
        kinds = [kind_key(item.get("apiVersion", ""), item["kind"]) for item in listed]
        names = [(item.get("namespace", ""), item.get("name") or SELECTED) for item in listed]
        return sorted({str(Ref(kind, *name)) for kind, name in zip(kinds, names, strict=True)})
    except (msgspec.MsgspecError, KeyError, TypeError):
        return []  # written by another program


INDEXES = (
    Index("affine", affinity_index.affine_keys, "controllers.scheduler: bindings that a changed cluster concerns"),
    Index("closed", affinity_index.closed_keys, "controllers.scheduler: bindings that a closed cluster concerns"),
    Index("pending", affinity_index.pending_keys, "controllers.scheduler: bindings that wait for capacity"),
    Index("group", affinity_index.group_keys, "controllers.scheduler: bindings of a workload affinity group"),
    Index("together", colocation_index.together_keys, "controllers.scheduler, evictions: parts of an application"),
    Index("placed", _placed_on, "controllers.eviction_queue, scheduler, drains: bindings on a cluster"),
    Index("leaving", _leaving_clusters, "controllers.graceful_eviction, drains: tasks a changed cluster may clear"),
    Index("required", _required_by, "controllers.dependencies: objects that a workload needs"),
    Index("depends", _depends_on, "controllers.dependencies: workloads that need an object"),
    Index("policy", claimed_by, "controllers.policies: bindings that a policy claims"),
    Index(OVER_QUOTA, over_quota_keys, "controllers.scheduler: bindings that wait for room in a quota"),
    Index("left", origin.left_clusters, "controllers.failbacks: bindings that left a cluster in a failover"),
)

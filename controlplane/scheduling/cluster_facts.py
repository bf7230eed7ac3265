"""What filters read of a cluster apart from its spec, its APIs and its capacity. All its labels are among it.

If one of these facts changes, the scheduler looks at the bindings again (`controllers.scheduler`), evictions that are
held for lack of a cluster are tried again (`eviction.capacity_digest`), and answers about readiness are computed again
(`insight.readiness_row`). A filter that reads something else of a cluster, for
example a condition, needs it here.
"""

from __future__ import annotations

from typing import Any

from controlplane.kinds.cluster import Cluster


def facts(cluster: Cluster) -> tuple[Any, ...]:
    """Return the facts: values that can be compared and encoded as JSON."""
    return cluster.metadata.labels, cluster.metadata.deletion_timestamp

"""What columns of `kubectl get` show and the objects do not contain, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apps.api import in_force
from apps.api.answer import Document, ReadBeside
from apps.objects.store import store
from controlplane import kinds
from controlplane.apimachinery.names import cluster_of_execution_namespace, is_execution_namespace
from controlplane.kinds.work.columns import OUT_OF_REACH
from controlplane.wire.table import Beside


def beside_works() -> Beside:
    """Return a function that returns since when the cluster of a Work cannot be reached; {}: it can. One query."""
    since = {
        cluster.metadata.name: {OUT_OF_REACH: cluster.out_of_reach_since}
        for cluster in store().list(kinds.CLUSTER)
        if cluster.out_of_reach_since is not None
    }

    def extra(document: Document) -> Document:
        namespace = document.get("metadata", {}).get("namespace", "")
        return since.get(cluster_of_execution_namespace(namespace), {}) if is_execution_namespace(namespace) else {}

    return extra


READERS: Final[Mapping[str, ReadBeside]] = {
    kinds.FAILOVER_CONFIGURATION: in_force.beside_objects,
    kinds.WORK: beside_works,
}

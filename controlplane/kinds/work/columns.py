"""The columns that `kubectl get works` prints: the object, and whether its member has it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from controlplane.apimachinery.names import cluster_of_execution_namespace, is_execution_namespace
from controlplane.kinds import cells
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.work.applied_overrides import applied_overrides, shown
from controlplane.wire.resource import Column, age
from controlplane.wire.table import Beside

OUT_OF_REACH: Final = "outOfReachSince"
"""The name under which a Table gives a Work the time since when its cluster cannot be reached."""
_applied = cells.condition("Applied")


def applied(status: str, since: datetime | None) -> str:
    """Return the status of the condition Applied as it is shown: Unknown while the cluster cannot be reached.

    `since`: since when the cluster cannot be reached. None: it can.
    """
    return "Unknown" if status and since is not None else status


def last_known(status: str, since: datetime | None, *, now: datetime) -> str:
    """Return the last known status of Applied and for how long the cluster cannot be reached: "True, 15m ago".

    "": the cluster can be reached, so that its status is current.
    """
    return "" if since is None else f"{status or 'nothing'}, {age(since, now)} ago"


def beside(clusters: Iterable[Cluster]) -> Beside:
    """Return a function from the document of a Work to what its columns need beside it.

    That is the time since when its cluster cannot be reached, under OUT_OF_REACH. {}: it can be reached.
    """
    since = {
        cluster.metadata.name: {OUT_OF_REACH: cluster.out_of_reach_since}
        for cluster in clusters
        if cluster.out_of_reach_since is not None
    }

    def extra(doc: dict[str, Any]) -> dict[str, Any]:
        namespace = doc.get("metadata", {}).get("namespace", "")
        return since.get(cluster_of_execution_namespace(namespace), {}) if is_execution_namespace(namespace) else {}

    return extra


def _manifest(doc: dict[str, Any]) -> dict[str, Any]:
    manifests = doc.get("spec", {}).get("workload", {}).get("manifests", ())
    return manifests[0] if manifests else {}


def _overrides(doc: dict[str, Any], now: datetime) -> str:
    annotations = doc.get("metadata", {}).get("annotations") or {}
    return ", ".join(shown(policy) for policy in applied_overrides(annotations))


COLUMNS = (
    Column("Workload-Kind", lambda doc, now: _manifest(doc).get("kind", "")),
    Column("Workload-Name", lambda doc, now: _manifest(doc).get("metadata", {}).get("name", "")),
    Column(
        "Applied",
        lambda doc, now: applied(_applied(doc, now), doc.get(OUT_OF_REACH)),
        description="Whether the member has the object. Unknown: it cannot be reached.",
    ),
    Column(
        "Last-Known",
        lambda doc, now: last_known(_applied(doc, now), doc.get(OUT_OF_REACH), now=now),
        description="What Applied was when the cluster was last reached, and how long ago.",
    ),
    Column("Overrides", _overrides, priority=1, description="Override policies that were applied."),
)

"""Changes that `insight.what_if` answers questions about. Users, pages and commands write them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, get_args

import msgspec

from controlplane.apimachinery.causes import invalid, required, unsupported
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.times import in_utc
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.workload_rebalancer import RebalancedWorkload, WorkloadSelector


class _Change(msgspec.Struct, frozen=True, tag=True, tag_field="type", rename="camel", forbid_unknown_fields=True):
    """The base of all changes. In documents, `type` is the name of the class."""


class ClustersLost(_Change, frozen=True):
    """Clusters stop answering: those with these names, and all of these regions and providers."""

    names: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()


class ClustersDrained(_Change, frozen=True):
    """Each of these clusters gets a Drain. `rate`: bindings per second of each Drain."""

    names: tuple[str, ...]
    rate: float = 0.5


class TaintAdded(_Change, frozen=True):
    """A user adds a taint to a cluster. `timeAdded` unset: now."""

    cluster: str
    taint: Taint


class TaintRemoved(_Change, frozen=True):
    """A user removes a taint from a cluster. A taint that has an owner may be added again by its owner."""

    cluster: str
    key: str
    effect: str


class Cordoned(_Change, frozen=True):
    """Clusters take no new copies, as after `kubectl cordon`."""

    names: tuple[str, ...]


class ClusterRemoved(_Change, frozen=True):
    """A cluster is deleted. `copies`: "keep" or "delete", the value of the annotation `failover.lifeboat.io/unjoin`.

    "": the Cluster has no such annotation.
    """

    name: str
    copies: str = ""


class GateOrRateChanged(_Change, frozen=True):
    """FailoverConfiguration/default gets this spec: feature gates, rates and all other settings that it may have."""

    configuration: dict[str, Any]


class PolicyEdited(_Change, frozen=True):
    """A propagation, override or ClusterTaintPolicy is created or replaced by this document."""

    policy: dict[str, Any]


class HoldEdited(_Change, frozen=True):
    """An EvictionHold or a MaintenanceWindow is created or replaced by this document."""

    hold: dict[str, Any]


class Failback(_Change, frozen=True):
    """A Failback returns the bindings that left a cluster. `rate`: bindings per second."""

    cluster: str
    rate: float = 0.5


class Rescheduled(_Change, frozen=True):
    """The scheduler chooses the clusters of workloads again, as a WorkloadRebalancer with these fields requests it."""

    workloads: tuple[RebalancedWorkload, ...] = ()
    workload_selector: WorkloadSelector | None = None


class ObjectsDeleted(_Change, frozen=True):
    """Objects are deleted: workloads, bindings, clusters, namespaces, policies, holds. `refs`: references as text."""

    refs: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for a text that is no reference."""
        for text in self.refs:
            Ref.parse(text)

    def of_kinds(self, kinds: Collection[str]) -> Iterable[Ref]:
        """Yield the references of these kinds."""
        return (ref for ref in map(Ref.parse, self.refs) if ref.kind in kinds)


Change = (
    ClustersLost
    | ClustersDrained
    | TaintAdded
    | TaintRemoved
    | Cordoned
    | ClusterRemoved
    | GateOrRateChanged
    | PolicyEdited
    | HoldEdited
    | Failback
    | Rescheduled
    | ObjectsDeleted
)
TYPES = tuple(sorted(each.__name__ for each in get_args(Change)))


def lost_clusters(change: ClustersLost, clusters: Iterable[Cluster]) -> tuple[str, ...]:
    """Return the sorted names of the clusters that a loss concerns. Names without a cluster are left out."""
    return tuple(
        sorted(
            cluster.metadata.name
            for cluster in clusters
            if cluster.metadata.name in change.names
            or (cluster.spec.region and cluster.spec.region in change.regions)
            or (cluster.spec.provider and cluster.spec.provider in change.providers)
        )
    )


def decoded_changes(documents: Iterable[Any], *, path: str = "spec.changes") -> tuple[tuple[Change, ...], list[Cause]]:
    """Return the changes in documents, and a cause for each document that is none. `path`: of the list of documents."""
    changes: list[Change] = []
    causes: list[Cause] = []
    for index, document in enumerate(documents):
        try:
            changes.append(in_utc(msgspec.convert(document, Change)))
        except msgspec.ValidationError as error:
            causes.append(_cause(f"{path}[{index}]", document, str(error)))
    if not changes and not causes:
        causes.append(required(path, f"write at least one change, each with a type: {', '.join(TYPES)}"))
    return tuple(changes), causes


def _cause(path: str, document: Any, message: str) -> Cause:
    """Return the cause for a document that is no change. msgspec writes the path of the field behind "- at `$"."""
    given = document.get("type") if isinstance(document, dict) else None
    if given not in TYPES:
        return unsupported(f"{path}.type", given, TYPES)
    what, _, where = message.partition(" - at `$")
    return invalid(f"{path}{where.rstrip('`')}", given, what)

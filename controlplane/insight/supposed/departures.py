"""What becomes of each binding: collected while changes are worked out, and returned as lists of `Affected`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.eviction.directly import proceed_after
from controlplane.eviction.purge import purge_mode
from controlplane.insight.effects import Affected
from controlplane.kinds.binding import BINDINGS, Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.settings import Settings

NO_REFUGE = "NoRefuge"
WAITS_DIRECTLY, WAITS_DISPATCH = "DirectlyUnreachable", "DispatchingSuspended"


class Outcome(msgspec.Struct):
    """What becomes of one binding. It is filled copy by copy.

    left: the clusters that it leaves. after: its targets afterwards; None: not known, because nothing leaves or another
    scheduler decides. stuck: clusters that it cannot leave, each with reason and message. unplaced: why it is on no
    cluster. stays: as `stuck`, for clusters that it may stay on. at: when its last copy is evicted.
    """

    binding: Binding
    left: dict[str, int] = {}
    after: tuple[TargetCluster, ...] | None = None
    message: str = ""
    stuck: dict[str, tuple[str, str]] = {}
    stays: dict[str, tuple[str, str]] = {}
    unplaced: str = ""
    waits: tuple[str, str] = ("", "")
    at: datetime | None = None

    def leaves(self, cluster: str, after: Iterable[TargetCluster], message: str) -> None:
        """Record that the copy on a cluster leaves, and where all copies are afterwards."""
        self.left[cluster] = replicas_on(self.binding, cluster)
        self.after, self.message = tuple(after), message

    def goes_to(self, after: Iterable[TargetCluster], message: str) -> None:
        """Record where the binding is afterwards, and how many replicas leave each cluster because of that.

        This is for moves by the scheduler or a failback. Evictions are recorded by `leaves`.
        """
        self.after, self.message = tuple(after), message
        count = {target.name: target.replicas for target in self.after}
        self.left = {
            target.name: target.replicas - count.get(target.name, 0)
            for target in self.binding.spec.clusters
            if target.name not in count or count[target.name] < target.replicas
        }

    def is_decided(self, decision: tuple[TargetCluster, ...] | str, message: str) -> None:
        """Record what the scheduler decided: the targets, for the reason `message`, or why it finds none."""
        if not isinstance(decision, str):
            self.goes_to(decision, message)
            return
        for target in self.binding.spec.clusters:
            self.stuck[target.name] = (NO_REFUGE, decision)
        self.unplaced = "" if self.binding.spec.clusters else decision

    @property
    def moves(self) -> bool:
        """Whether any copy or replica leaves a cluster, or is new on one."""
        return bool(self.left) or bool(gains(self.binding, self.after or ()))

    def move(self) -> Affected:
        """Return the move of the binding: what it leaves and what it gains."""
        return self.affected(self.left, gains(self.binding, self.after or ()), message=self.message, at=self.at)

    def affected(
        self,
        left: Mapping[str, int],
        to: Mapping[str, int] = {},
        *,
        reason: str = "",
        message: str = "",
        at: datetime | None = None,
    ) -> Affected:
        """Return the binding with these clusters, replicas and this reason."""
        name = workload(self.binding)
        return Affected(str(self.binding.ref), name, dict(left), dict(to), reason, message, at)


def workload(binding: Binding) -> str:
    """Return the workload of a binding as `Kind namespace/name`."""
    resource = binding.spec.resource
    place = f"{resource.namespace}/{resource.name}" if resource.namespace else resource.name
    return f"{resource.kind} {place}"


def replicas_on(binding: Binding, cluster: str) -> int:
    """Return the replicas of a binding on a cluster; 0 if it has no target there."""
    target = binding.spec.target(cluster)
    return 0 if target is None else target.replicas


def gains(binding: Binding, after: Iterable[TargetCluster]) -> dict[str, int]:
    """Return the additional replicas by cluster; 0 for a new copy of a workload without replicas."""
    before = {target.name: target.replicas for target in binding.spec.clusters}
    return {
        target.name: target.replicas - before.get(target.name, 0)
        for target in after
        if target.name not in before or target.replicas > before[target.name]
    }


def waits_for_person(
    binding: Binding, cluster: Cluster, settings: Settings, *, to: Iterable[str] = ()
) -> tuple[str, str]:
    """Return why new copies wait for a person after the binding has left a cluster; ("", ""): they start.

    `to`: the clusters of the new copies.
    """
    directly = purge_mode(binding, settings) == DIRECTLY and settings.directly_unreachable == "Wait"
    if directly and not cluster.answers and proceed_after(binding) is None:
        name = cluster.metadata.name
        return WAITS_DIRECTLY, f"a person has to confirm that cluster {name} is down: lifeboat fence {name}"
    suspension = binding.spec.suspension
    if suspension is None:
        return "", ""
    withheld = () if suspension.dispatching_on_clusters is None else suspension.dispatching_on_clusters.cluster_names
    names = sorted(set(to).intersection(withheld))
    if suspension.dispatching or names:
        where = "" if suspension.dispatching else f" to {', '.join(names)}"
        return WAITS_DISPATCH, f"dispatching{where} is suspended in the policy: set spec.suspension to end that"
    return "", ""


class Outcomes:
    """The outcomes of all bindings that changes concern. It is mutable."""

    def __init__(self) -> None:
        self.by_binding: dict[Ref, Outcome] = {}
        self.removed: list[Affected] = []

    def of(self, binding: Binding) -> Outcome:
        """Return the outcome of a binding. It is empty at first."""
        found = self.by_binding.get(binding.ref)
        if found is None:
            found = self.by_binding[binding.ref] = Outcome(binding)
        return found

    def in_order(self) -> list[Outcome]:
        """Return the outcomes in the order of the references of their bindings, namespaced ones first."""
        return sorted(self.by_binding.values(), key=lambda one: (BINDINGS.index(one.binding.ref.kind), one.binding.ref))

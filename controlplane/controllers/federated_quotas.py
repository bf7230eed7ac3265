"""FederatedQuotas: makes the ResourceQuotas of static assignments, and sums the status of quotas [federated-quotas]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct
from controlplane.apimachinery.names import cluster_of_execution_namespace
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.estimate import quota as quotas
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE, FederatedResourceQuota
from controlplane.kinds.work import Work
from controlplane.propagation import quota_works, works
from controlplane.settings import Settings

USED: Final = "QuotaUse"
"""Kind of the origin of a fan-out: a namespace whose bindings request more or less than before."""


class FederatedQuotasSnapshot(Struct, frozen=True):
    """A quota (None: deleted), its Works by cluster, the clusters that are there, and what its namespace uses."""

    ref: Ref
    subject: FederatedResourceQuota | None
    stored: dict[str, Work]
    clusters: frozenset[str] = frozenset()
    used: quotas.Use = quotas.NO_USE


def _quota_changed(old: FederatedResourceQuota | None, new: FederatedResourceQuota | None) -> Iterator[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    yield present.ref


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The quota of a Work is due when the Work was removed, edited, or reported something else."""
    if old is None:
        return
    if new is not None and (old.spec, old.status.manifest_statuses) == (new.spec, new.status.manifest_statuses):
        return
    yield from works.owner(old, (kinds.FEDERATED_QUOTA,))


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if quotas.changes(old, new):
        yield Ref(USED, "", present.metadata.namespace)


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The quotas with a part for a cluster are due when it joins or begins to leave."""
    present = new or old
    assert present is not None, "a change has an old or a new side"
    if old is None or new is None or old.terminating != new.terminating:
        yield present.ref


class FederatedQuotas(Controller):
    """Key: a FederatedResourceQuota. Writes its status, and the Works with its ResourceQuotas."""

    name: ClassVar[str] = "federated_quotas"
    creates_separately: ClassVar[bool] = True
    group: ClassVar[str] = "scheduling"  # right after the scheduler, so that the use is shown before copies exist
    keys: ClassVar[tuple[str, ...]] = (kinds.FEDERATED_QUOTA,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.FEDERATED_QUOTA, _quota_changed),
        Watch(kinds.WORK, _work_changed),
        Watch(kinds.RESOURCE_BINDING, _binding_changed, fan_out=True),
        Watch(kinds.CLUSTER, _cluster_changed, fan_out=True),
        Watch(kinds.FAILOVER_CONFIGURATION, lambda old, new: ((new or old).ref,), fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            kinds.FEDERATED_QUOTA: ("status",),
            kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec"),
        }
    )
    batch: ClassVar[int] = 100
    decides_in_fan_out: ClassVar[bool] = True

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[FederatedQuotasSnapshot | None]:
        found = state.get(refs)
        stored = state.by_index(kinds.WORK, "binding", [str(ref) for ref in refs])
        named = {item.cluster_name for quota in found.values() for item in quota.spec.static_assignments}
        known = state.get([Ref(kinds.CLUSTER, "", name) for name in sorted(named)])
        clusters = frozenset(cluster.metadata.name for cluster in known.values() if not cluster.terminating)
        used = state.quota_use({ref.namespace for ref in found})
        snapshots: list[FederatedQuotasSnapshot | None] = []
        for ref in refs:
            own = {
                cluster_of_execution_namespace(work.metadata.namespace): work
                for work in stored.get(str(ref), ())
                if quota_works.is_for(work, ref)
            }
            quota = found.get(ref)
            snapshot = FederatedQuotasSnapshot(ref, quota, own, clusters, used.get(ref.namespace, quotas.NO_USE))
            snapshots.append(snapshot if quota is not None or own else None)
        return snapshots

    def decide(
        self, snapshot: FederatedQuotasSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        quota = snapshot.subject
        if quota is None or quota.metadata.deletion_timestamp is not None:
            deletions = _deletions(snapshot, snapshot.stored, now=now)
            return Decision(changes=deletions, reason="QuotaGone") if deletions else NOTHING
        wanted = {
            name: work for name, work in quota_works.of_assignments(quota, now=now).items() if name in snapshot.clusters
        }
        changes: tuple[Put | Delete, ...] = (
            *_puts(snapshot, wanted),
            *_deletions(snapshot, snapshot.stored.keys() - wanted.keys(), now=now),
        )
        events = [Event(quota, "SyncWorkSucceed", _SYNCED, step=True)] if changes else []
        used = snapshot.used if settings.gate(ENFORCEMENT_GATE) else None
        counted = quota_works.counted(quota, snapshot.stored, used)
        if counted is not quota:
            changes = (*changes, Put(counted, quota))
            events += _status_events(quota, counted)
        return Decision(changes=changes, events=tuple(events), reason="SyncQuota") if changes else NOTHING

    def fan_out_of(self, origin: Ref) -> str:
        """Origins of a kind are expanded together: a batch of placements changes the use of hundreds of namespaces."""
        return origin.kind

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        """Return the quotas of namespaces, those with a part for one of some clusters, or all quotas."""
        kind, begin = origins[0].kind, cursor_after(after)
        if kind == kinds.FAILOVER_CONFIGURATION:  # the gate may have changed
            found = state.list(kinds.FEDERATED_QUOTA, after=begin, limit=limit)
            return page([quota.ref for quota in found], limit=limit)
        index, names = "namespace" if kind == USED else "cluster", sorted({origin.name for origin in origins})
        return page(state.refs_by_index(kinds.FEDERATED_QUOTA, index, names, after=begin, limit=limit), limit=limit)


_SYNCED: Final = "The ResourceQuotas of spec.staticAssignments are as the quota asks."


def _status_events(old: FederatedResourceQuota, new: FederatedResourceQuota) -> Iterator[Event]:
    """Yield the Events about a new status, as Karmada words their reasons."""
    message = f"Collect status of FederatedResourceQuota({old.metadata.namespace}/{old.metadata.name}) succeed."
    before, after = old.status, new.status
    if before.aggregated_status != after.aggregated_status:
        yield Event(new, "AggregateStatusSucceed", message, step=True)
    if (before.overall, before.overall_used) != (after.overall, after.overall_used):
        yield Event(new, "CollectOverallStatusSucceed", message, step=True)


def _puts(snapshot: FederatedQuotasSnapshot, wanted: Mapping[str, Work]) -> Iterator[Put]:
    """Yield the writes of the Works that are missing or differ. A Work that is being deleted is made again later."""
    for name, work in wanted.items():
        stored = snapshot.stored.get(name)
        if stored is not None and stored.metadata.deletion_timestamp is not None:
            continue  # the quota is due again once the Work is removed
        renewed = work if stored is None else works.updated(stored, work)
        if renewed is not stored:
            yield Put(renewed, stored)


def _deletions(snapshot: FederatedQuotasSnapshot, clusters: Iterable[str], *, now: datetime) -> tuple[Delete, ...]:
    """Return the deletions of the Works for these clusters."""
    found = [snapshot.stored[name] for name in sorted(clusters)]
    return tuple(deleting(work, now=now) for work in found if work.metadata.deletion_timestamp is None)

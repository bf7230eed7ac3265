"""Unjoin: keeps a deleted Cluster until its Works and their namespace are removed [cluster-deletion].

What happens to the copies on it is decided by the annotation `failover.lifeboat.io/unjoin` [unjoin-and-drain].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct, to_seconds
from controlplane.apimachinery.names import (
    CLUSTER_FINALIZER,
    CLUSTER_NAMESPACE,
    cluster_of_execution_namespace,
    execution_namespace,
    impersonation_secret_name,
    is_execution_namespace,
)
from controlplane.clusters import unjoin
from controlplane.engine import lifecycle
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import works as copies
from controlplane.settings import Settings

PAGE = 200  # Works deleted by one decision
QUICK_CHECK = timedelta(seconds=1)  # while Works are being removed
SLOW_CHECK = timedelta(seconds=10)  # while bindings are still placed on the cluster


class UnjoinSnapshot(Struct, frozen=True):
    """A cluster, and if it is being deleted what it waits for and what is removed with it.

    It waits for the bindings placed on it, its Works and their namespace. Its Lease and the credentials that joining
    created are removed with it.
    """

    subject: Cluster
    placed: tuple[Ref, ...] = ()
    works: tuple[Work, ...] = ()
    owned: frozenset[Ref] = frozenset()  # Works of bindings that exist; the annotation of a Work alone proves nothing
    namespace: Template | None = None
    lease: Template | None = None
    credentials: tuple[Template, ...] = ()


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """A cluster is due when it joins, while it has no finalizer, and while it is being deleted."""
    if new is not None and (old is None or new.terminating or CLUSTER_FINALIZER not in new.metadata.finalizers):
        yield new.ref


def _work_gone(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A cluster is due when one of its Works was removed."""
    if old is not None and new is None:
        yield from _cluster_of(old.metadata.namespace)


def _namespace_gone(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A cluster is due when the namespace of its Works was removed, which is the last thing it waits for."""
    if old is not None and new is None:
        yield from _cluster_of(old.metadata.name)


def _cluster_of(namespace: str) -> Iterator[Ref]:
    """Yield the cluster that an execution namespace belongs to; nothing for other namespaces."""
    if is_execution_namespace(namespace):
        yield Ref(kinds.CLUSTER, "", cluster_of_execution_namespace(namespace))


class Unjoin(Controller):
    """Key: a Cluster. Adds a finalizer when it joins, and removes it when nothing of the cluster is left."""

    name: ClassVar[str] = "unjoin"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.CLUSTER, _cluster_changed),
        Watch(kinds.WORK, _work_gone),
        Watch(kinds.NAMESPACE, _namespace_gone),
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            kinds.CLUSTER: ("metadata.finalizers",),
            kinds.WORK: ("delete", "metadata.deletion_timestamp", "metadata.deletion_grace_period_seconds", "spec"),
            kinds.NAMESPACE: ("metadata", "status"),
            kinds.LEASE: ("delete",),
            kinds.SECRET: ("delete",),
        }
    )
    batch: ClassVar[int] = 1  # each cluster needs queries of its own; few clusters are unjoined at a time

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[UnjoinSnapshot | None]:
        found: dict[Ref, Cluster] = state.get(refs)
        return [self._snapshot(state, found[ref]) if ref in found else None for ref in refs]

    def _snapshot(self, state: State, cluster: Cluster) -> UnjoinSnapshot:
        if not cluster.terminating:
            return UnjoinSnapshot(cluster)
        name = cluster.metadata.name
        namespace = Ref(kinds.NAMESPACE, "", execution_namespace(name))
        lease = Ref(kinds.LEASE, CLUSTER_NAMESPACE, name)
        secrets = [Ref(kinds.SECRET, CLUSTER_NAMESPACE, found) for found in (name, impersonation_secret_name(name))]
        works = state.refs_by_index(kinds.WORK, "cluster", name, limit=PAGE)
        held = state.get([namespace, lease, *secrets, *works], unopened=True)  # the Secrets are only deleted
        found: tuple[Work, ...] = tuple(held[ref] for ref in works if ref in held)
        owners = {work.ref: owner for work in found for owner in copies.owner(work, kinds.BINDINGS)}
        bindings: dict[Ref, Binding] = state.get(sorted(set(owners.values()))) if owners else {}
        return UnjoinSnapshot(
            cluster,
            tuple(unjoin.placed_on(state, name)),
            found,
            frozenset(work.ref for work in found if _is_owned(work, bindings.get(owners.get(work.ref, work.ref)))),
            held.get(namespace),
            held.get(lease),
            unjoin.credentials(cluster, [held[ref] for ref in secrets if ref in held], state.list(kinds.CLUSTER)),
        )

    def decide(self, snapshot: UnjoinSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        cluster = snapshot.subject
        finalizers = cluster.metadata.finalizers
        if not cluster.terminating:
            return _joined(cluster)
        if CLUSTER_FINALIZER not in finalizers:
            return NOTHING
        if snapshot.placed and not unjoin.forced(cluster):
            how = (
                "the eviction queue moves them" if unjoin.evicts(settings) else "move them with a Drain of the cluster"
            )
            return _waiting(cluster, f"bindings are placed on it ({unjoin.named(snapshot.placed)}); {how}", now=now)
        if snapshot.works or snapshot.namespace is not None:
            kept = [work.ref for work in snapshot.works if _is_kept(work, snapshot)]
            changes = tuple(_removals(snapshot, set(kept), now=now))
            if kept and not changes:
                return _waiting(cluster, f"copies on it may be the last healthy ones ({unjoin.named(kept)})", now=now)
            return Decision(changes=changes, wake_at=now + QUICK_CHECK, reason="Unjoin")
        freed = cluster.with_meta(finalizers=tuple(name for name in finalizers if name != CLUSTER_FINALIZER))
        rest = [deleting(obj, now=now) for obj in (snapshot.lease, *snapshot.credentials) if obj is not None]
        return Decision(changes=(Put(freed, cluster), *rest), events=(_space(cluster, "Remove"),), reason="Unjoined")


def _joined(cluster: Cluster) -> Decision:
    """Return the finalizer of a cluster, and the Event of one that has just joined."""
    events = () if cluster.status.conditions else (_space(cluster, "Create"),)
    if CLUSTER_FINALIZER in cluster.metadata.finalizers:
        return Decision(events=events) if events else NOTHING
    held = cluster.with_meta(finalizers=(*cluster.metadata.finalizers, CLUSTER_FINALIZER))
    return Decision(changes=(Put(held, cluster),), events=events, reason="Joined")


def _space(cluster: Cluster, verb: str) -> Event:
    """Return the Event, with Karmada's reason, that the namespace for the Works of a cluster can be used, or is empty.

    The namespace needs no object of its own.
    """
    state = "can be used" if verb == "Create" else "is empty"
    message = f"the namespace {execution_namespace(cluster.metadata.name)} for Works of the cluster {state}"
    return Event(cluster, f"{verb}ExecutionSpaceSucceed", message)


def _waiting(cluster: Cluster, reason: str, *, now: datetime) -> Decision:
    message = f"cluster {cluster.metadata.name} is being deleted and waits: {reason}"
    return Decision(events=(Event(cluster, "UnjoinWaiting", message, warning=True),), wake_at=now + SLOW_CHECK)


def _is_kept(work: Work, snapshot: UnjoinSnapshot) -> bool:
    """Test whether a Work is left to controllers.works, which removes it once the wanted copies are healthy."""
    cluster = snapshot.subject
    if unjoin.forced(cluster) or cluster.ready != "True" or work.metadata.deletion_timestamp is not None:
        return False
    return work.ref in snapshot.owned


def _is_owned(work: Work, binding: Binding | None) -> bool:
    return binding is not None and copies.is_of(work, binding)


def _removals(snapshot: UnjoinSnapshot, kept: set[Ref], *, now: datetime) -> Iterator[Put | Delete]:
    """Yield the deletions of the next Works, and after the last one that of their namespace.

    While copies are `kept`, the Works of Namespaces stay: the copies would be deleted with their Namespace.
    """
    for work in snapshot.works:
        if work.metadata.deletion_timestamp is not None or work.ref in kept:
            continue
        if kept and any(copies.owner(work, (kinds.NAMESPACE,))):
            continue
        is_ours = any(copies.owner(work, (kinds.CLUSTER,)))  # rights of the impersonator, which nothing else uses
        keeps = unjoin.keeps(snapshot.subject) and not is_ours
        yield Put(_released(work, now=now), work) if keeps else deleting(work, now=now)
    namespace = snapshot.namespace
    if not snapshot.works and namespace is not None and namespace.metadata.deletion_timestamp is None:
        yield lifecycle.request_deletion(namespace, now=now)


def _released(work: Work, *, now: datetime) -> Work:
    """Return a Work that is being deleted and leaves its object on the member, without labels of this product."""
    deleted = work.with_meta(deletion_timestamp=to_seconds(now), deletion_grace_period_seconds=0)
    return deleted.with_spec(preserve_resources_on_deletion=True)

"""Unjoin: holds a Cluster that is being deleted until its Works and their namespace are gone (D20, semantics 2.13)."""

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

PAGE = 200  # Works let go in one decision
LOOK = timedelta(seconds=1)  # while Works are on their way out
WAIT = timedelta(seconds=10)  # while something has to leave first (semantics 2.13)


class Departure(Struct, frozen=True):
    """A cluster, and while it is being deleted what still holds it: bindings, Works, their namespace; and what goes
    with it: its heartbeats, and the credentials that joining it made.

    `owned` are the Works that are copies of a binding that exists: in the place of its copies, not by annotation alone.
    """

    subject: Cluster
    placed: tuple[Ref, ...] = ()
    works: tuple[Work, ...] = ()
    owned: frozenset[Ref] = frozenset()
    home: Template | None = None
    lease: Template | None = None
    credentials: Template | None = None


def _concerned(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    if new is not None and (new.terminating or CLUSTER_FINALIZER not in new.metadata.finalizers):
        yield new.ref


def _emptied(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A cluster is due when a Work of it is gone: that may be what it waited for."""
    if old is not None and new is None:
        yield from _whose(old.metadata.namespace)


def _home_gone(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The namespace of its Works is the last it waits for."""
    if old is not None and new is None:
        yield from _whose(old.metadata.name)


def _whose(namespace: str) -> Iterator[Ref]:
    if is_execution_namespace(namespace):
        yield Ref(kinds.CLUSTER, "", cluster_of_execution_namespace(namespace))


class Unjoin(Controller):
    """Key: a Cluster. Puts our finalizer on, and takes it off when nothing is left."""

    name: ClassVar[str] = "unjoin"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.CLUSTER, _concerned),
        Watch(kinds.WORK, _emptied),
        Watch(kinds.NAMESPACE, _home_gone),
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
    batch: ClassVar[int] = 1  # "nothing is placed there" has to be asked of each cluster; few leave at a time

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Departure | None]:
        found: dict[Ref, Cluster] = state.get(refs)
        return [self._departure(state, found[ref]) if ref in found else None for ref in refs]

    def _departure(self, state: State, cluster: Cluster) -> Departure:
        if not cluster.terminating:
            return Departure(cluster)
        name = cluster.metadata.name
        home = Ref(kinds.NAMESPACE, "", execution_namespace(name))
        lease, secret = (Ref(kind, CLUSTER_NAMESPACE, name) for kind in (kinds.LEASE, kinds.SECRET))
        works = state.refs_by_index(kinds.WORK, "cluster", name, limit=PAGE)
        held = state.get([home, lease, secret, *works])
        found: tuple[Work, ...] = tuple(held[ref] for ref in works if ref in held)
        owners = {work.ref: owner for work in found for owner in copies.owner(work, kinds.BINDINGS)}
        bindings: dict[Ref, Binding] = state.get(sorted(set(owners.values()))) if owners else {}
        return Departure(
            cluster,
            tuple(unjoin.placed_on(state, name)),
            found,
            frozenset(work.ref for work in found if _is_owned(work, bindings.get(owners.get(work.ref, work.ref)))),
            held.get(home),
            held.get(lease),
            unjoin.credentials(cluster, held.get(secret), state.list(kinds.CLUSTER)),
        )

    def decide(self, snapshot: Departure, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        cluster = snapshot.subject
        finalizers = cluster.metadata.finalizers
        if not cluster.terminating:
            if CLUSTER_FINALIZER in finalizers:
                return NOTHING
            held = cluster.with_meta(finalizers=(*finalizers, CLUSTER_FINALIZER))
            return Decision(changes=(Put(held, cluster),), reason="Joined")
        if CLUSTER_FINALIZER not in finalizers:
            return NOTHING
        if snapshot.placed and not unjoin.forced(cluster):
            how = "the eviction queue moves them" if unjoin.evicts(settings) else "nobody moves them: drain it"
            return _waits(cluster, f"bindings are placed on it ({unjoin.named(snapshot.placed)}); {how}", now=now)
        if snapshot.works or snapshot.home is not None:
            kept = [work.ref for work in snapshot.works if _is_kept(work, snapshot)]
            changes = tuple(_emptying(snapshot, set(kept), now=now))
            if kept and not changes:
                return _waits(cluster, f"copies on it may be the last that work ({unjoin.named(kept)})", now=now)
            return Decision(changes=changes, wake_at=now + LOOK, reason="Unjoin")
        freed = cluster.with_meta(finalizers=tuple(one for one in finalizers if one != CLUSTER_FINALIZER))
        rest = [deleting(one, now=now) for one in (snapshot.lease, snapshot.credentials) if one is not None]
        return Decision(changes=(Put(freed, cluster), *rest), reason="Unjoined")


def _waits(cluster: Cluster, what: str, *, now: datetime) -> Decision:
    message = f"cluster {cluster.metadata.name} is being deleted and waits: {what}"
    return Decision(events=(Event(cluster, "UnjoinWaiting", message, warning=True),), wake_at=now + WAIT)


def _is_kept(work: Work, snapshot: Departure) -> bool:
    """Test whether a Work is its binding's to remove: controllers.works does, once the wanted copies are healthy."""
    cluster = snapshot.subject
    if unjoin.forced(cluster) or cluster.ready != "True" or work.metadata.deletion_timestamp is not None:
        return False
    return work.ref in snapshot.owned


def _is_owned(work: Work, binding: Binding | None) -> bool:
    return binding is not None and copies.is_of(work, binding)


def _emptying(snapshot: Departure, kept: set[Ref], *, now: datetime) -> Iterator[Put | Delete]:
    """Yield what lets the next Works go, and after the last one their namespace with whatever else is in it.

    What brought a Namespace to the member stays as long as copies are `kept`: they would go with it.
    """
    for work in snapshot.works:
        if work.metadata.deletion_timestamp is not None or work.ref in kept:
            continue
        if kept and any(copies.owner(work, (kinds.NAMESPACE,))):
            continue
        yield Put(_released(work, now=now), work) if unjoin.keeps(snapshot.subject) else deleting(work, now=now)
    home = snapshot.home
    if not snapshot.works and home is not None and home.metadata.deletion_timestamp is None:
        yield lifecycle.request_deletion(home, now=now)


def _released(work: Work, *, now: datetime) -> Work:
    """Return a Work on its way out that leaves its object on the member, without our marks."""
    going = work.with_meta(deletion_timestamp=to_seconds(now), deletion_grace_period_seconds=0)
    return going.with_spec(preserve_resources_on_deletion=True)

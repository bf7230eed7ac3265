"""Binding status: collects what the members report about the copies of a binding [status-aggregation]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Ref, Struct, condition, with_condition
from controlplane.controllers.reads.bindings_on_clusters import works_of
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction.leftovers import is_leftover
from controlplane.interpret.retain import leaves_replicas
from controlplane.kinds.binding import FULLY_APPLIED, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.work import Work
from controlplane.propagation import aggregation, bindings, works
from controlplane.settings import Settings


class BindingStatusSnapshot(Struct, frozen=True):
    """A binding and its Works. `out_of_reach`: since when clusters of these Works cannot be reached, by name."""

    subject: Binding
    works: tuple[Work, ...]
    out_of_reach: Mapping[str, datetime] = {}


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The binding of a Work is due when a member reported, the Work was deleted, or its leftover mark changed, or the
    label that leaves replicas to the member.

    A new Work has no report yet.
    """
    if old is None or (new is not None and same(_reported(old), _reported(new))):
        return
    yield from works.owner(old, kinds.BINDINGS)


def _reported(work: Work) -> tuple[Any, ...]:
    """Return the parts of a Work that decide what it adds to the status of its binding."""
    return work.status, work.metadata.deletion_timestamp, is_leftover(work), leaves_replicas(work.manifest)


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A binding with a status is due when its clusters changed, because that may change whether it is fully applied."""
    if new is None or not _has_status(new):
        return
    if old is None or set(old.clusters_kept()) != set(new.clusters_kept()):
        yield new.ref


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The bindings with a Work for a cluster are due when the cluster can no longer be reached, or answers again."""
    if new is not None and (new.out_of_reach_since is None) != (old is None or old.out_of_reach_since is None):
        yield new.ref


class BindingStatus(Controller):
    """Key: a binding. Writes its aggregatedStatus and the condition FullyApplied.

    The last report of a cluster that cannot be reached is marked as last known until the cluster answers again.
    """

    name: ClassVar[str] = "binding_status"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = kinds.BINDINGS
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.WORK, _work_changed),
        *(Watch(kind, _binding_changed) for kind in kinds.BINDINGS),
        Watch(kinds.CLUSTER, _cluster_changed, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        dict.fromkeys(kinds.BINDINGS, ("status.aggregated_status", "status.conditions"))
    )

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[BindingStatusSnapshot | None]:
        found = state.get(refs)
        stored = works_of(state, found)
        names = {work.cluster for own in stored.values() for work in own if work.cluster}
        clusters: dict[Ref, Cluster] = state.get([Ref(kinds.CLUSTER, "", name) for name in sorted(names)])
        lost = {
            ref.name: since for ref, cluster in clusters.items() if (since := cluster.out_of_reach_since) is not None
        }
        return [
            BindingStatusSnapshot(found[ref], tuple(stored.get(str(ref), ())), lost) if ref in found else None
            for ref in refs
        ]

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that have a Work for a cluster."""
        refs = state.refs_by_index(kinds.WORK, "cluster", origin.name, after=cursor_after(after), limit=limit)
        found = state.get(refs).values()
        return [owner for work in found for owner in works.owner(work, kinds.BINDINGS)], page(refs, limit=limit)[1]

    def decide(
        self, snapshot: BindingStatusSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        binding = snapshot.subject
        if binding.metadata.deletion_timestamp is not None:
            return NOTHING
        if not _has_report(snapshot):
            return NOTHING
        items = aggregation.aggregated(
            [work for work in snapshot.works if not is_leftover(work)],
            out_of_reach=snapshot.out_of_reach,
            before=binding.status.aggregated_status,
        )
        applied = aggregation.fully_applied(binding, items)
        new = binding.with_status(
            aggregated_status=items, conditions=with_condition(binding.status.conditions, applied, now=now)
        )
        if new is binding:
            return NOTHING
        return Decision(
            changes=(Put(new, binding),), events=tuple(_first_status_events(binding, new)), reason="AggregateStatus"
        )


def _first_status_events(old: Binding, new: Binding) -> Iterator[Event]:
    """Yield the Events of the first aggregated status of a binding. Later ones yield none."""
    if new.status.aggregated_status and not old.status.aggregated_status:
        metadata = new.metadata
        shown = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        message = f"Update {new.kind}({shown}) with AggregatedStatus successfully."
        for about in (new, bindings.template_of(new)):
            yield Event(about, "AggregateStatusSucceed", message, step=True)


def _has_report(snapshot: BindingStatusSnapshot) -> bool:
    """Test whether a member has reported about this binding at least once."""
    return _has_status(snapshot.subject) or any(work.status.conditions for work in snapshot.works)


def _has_status(binding: Binding) -> bool:
    """Test whether the status of a binding was written before."""
    status = binding.status
    return bool(status.aggregated_status) or condition(status.conditions, FULLY_APPLIED) is not None

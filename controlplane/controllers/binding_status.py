"""Binding status: what the members say of all copies of a binding, in one place (semantics 2.11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct, condition, with_condition
from controlplane.controllers.reads.placed import works_of
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction.leftovers import is_leftover
from controlplane.kinds.binding import FULLY_APPLIED, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.work import Work
from controlplane.propagation import aggregation, bindings, works
from controlplane.settings import Settings


class Reports(Struct, frozen=True):
    """A binding and its Works; `out_of_reach`: since when clusters of these Works are, by name."""

    subject: Binding
    works: tuple[Work, ...]
    out_of_reach: Mapping[str, datetime] = {}


def _work(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The binding of a Work is due when a member reported, or the Work goes, is left over or is wanted again; a new one
    has nothing to say yet."""
    if old is None or (new is not None and _counts(old) == _counts(new)):
        return
    yield from works.owner(old, kinds.BINDINGS)


def _counts(work: Work) -> tuple[Any, ...]:
    """Return what of a Work decides what is added up."""
    return work.status, work.metadata.deletion_timestamp, is_leftover(work)


def _binding(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """What shall be applied where decides whether all is; before a member said anything its Works tell when to look."""
    if new is None or not _known(new) or (old is not None and set(old.clusters_kept()) == set(new.clusters_kept())):
        return
    yield new.ref


def _cluster(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The bindings with a Work for a cluster are due when the cluster gets out of reach and when it answers again."""
    if new is not None and (new.out_of_reach_since is None) != (old is None or old.out_of_reach_since is None):
        yield new.ref


class BindingStatus(Controller):
    """Key: a binding. Writes its aggregatedStatus and FullyApplied.

    What a cluster out of reach reported is marked as last known, and loses the mark when the cluster answers again.
    """

    name: ClassVar[str] = "binding_status"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = kinds.BINDINGS
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.WORK, _work),
        *(Watch(kind, _binding) for kind in kinds.BINDINGS),
        Watch(kinds.CLUSTER, _cluster, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        dict.fromkeys(kinds.BINDINGS, ("status.aggregated_status", "status.conditions"))
    )

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Reports | None]:
        found = state.get(refs)
        stored = works_of(state, found)
        names = {work.cluster for own in stored.values() for work in own if work.cluster}
        clusters: dict[Ref, Cluster] = state.get([Ref(kinds.CLUSTER, "", name) for name in sorted(names)])
        lost = {ref.name: since for ref, one in clusters.items() if (since := one.out_of_reach_since) is not None}
        return [Reports(found[ref], tuple(stored.get(str(ref), ())), lost) if ref in found else None for ref in refs]

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings that have a Work for a cluster."""
        refs = state.refs_by_index(kinds.WORK, "cluster", origin.name, after=cursor_after(after), limit=limit)
        found = state.get(refs).values()
        return [owner for work in found for owner in works.owner(work, kinds.BINDINGS)], page(refs, limit=limit)[1]

    def decide(self, snapshot: Reports, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        binding = snapshot.subject
        if binding.metadata.deletion_timestamp is not None:
            return NOTHING
        if not _spoken(snapshot):
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
        return Decision(changes=(Put(new, binding),), events=tuple(_first(binding, new)), reason="AggregateStatus")


def _first(old: Binding, new: Binding) -> Iterator[Event]:
    """Yield the Events of the first aggregated status of a binding; later ones have none."""
    if new.status.aggregated_status and not old.status.aggregated_status:
        place = new.metadata
        shown = f"{place.namespace}/{place.name}" if place.namespace else place.name
        message = f"Update {new.kind}({shown}) with AggregatedStatus successfully."
        for about in (new, bindings.template_of(new)):
            yield Event(about, "AggregateStatusSucceed", message, step=True)


def _spoken(snapshot: Reports) -> bool:
    """Test whether any member ever said anything about this binding: before, there is nothing to add up."""
    return _known(snapshot.subject) or any(work.status.conditions for work in snapshot.works)


def _known(binding: Binding) -> bool:
    """Test whether what members say of a binding was added up before."""
    status = binding.status
    return bool(status.aggregated_status) or condition(status.conditions, FULLY_APPLIED) is not None

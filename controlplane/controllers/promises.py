"""Promises: ends promised capacity once a report of the cluster counts it, or after 300 s (see scheduling.ledger)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct, condition
from controlplane.apimachinery.names import execution_namespace
from controlplane.controllers.reads.placed import works_of
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Drop, Save
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import CapacityReservation, Collected
from controlplane.kinds.work import APPLIED, Work
from controlplane.scheduling.ledger import RESERVATION_EXPIRY, live
from controlplane.settings import Settings

DISPATCH: Final = timedelta(seconds=5)
"""A Work that looks applied sooner after a promise may still be the one before it."""


class Promised(Struct, frozen=True):
    """What is promised on one cluster, which of the bindings' Works are applied there, and when it last reported."""

    ref: Ref
    reservations: tuple[CapacityReservation, ...]
    applied: frozenset[str]  # bindings, as text
    collected_at: datetime | None  # of the newest report that the Cluster shows; None: what it shows is older


def _reported(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    if old is not None and (new is None or old.status.resource_summary != new.status.resource_summary):
        yield old.ref


def _collected(old: Collected | None, new: Collected | None) -> Iterator[Ref]:
    if new is not None:
        yield Ref(CLUSTER, "", new.key)


class Promises(Controller):
    """Key: a cluster. Runs beside the scheduler, in its group, so that both never write one promise at a time;
    what evictions reserve are promises of their own.

    Only a report ends a promise early, so it is reports that make it look, not the thousands of promises a second; who
    counts promises leaves out what is older than 300 s.
    """

    name: ClassVar[str] = "promises"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("row/Collected", _collected),
        Watch(CLUSTER, _reported),
    )
    owns: ClassVar[Ownership] = Ownership({}, rows=(CapacityReservation,))

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Promised | None]:
        names = [ref.name for ref in refs]
        rows: dict[str, Sequence[CapacityReservation]] = state.rows(CapacityReservation, "cluster", names)
        if not rows:
            return [None] * len(refs)
        reports: dict[str, Sequence[Collected]] = state.rows(Collected, "key", names)
        clusters: dict[Ref, Cluster] = state.get(refs)
        promised = sorted(
            {
                Ref.parse(row.binding)
                for name, found in rows.items()
                for row in found
                if row.applied_at is None and not row.reserved and _may_count(row, reports.get(name, ()))
            }
        )
        works = works_of(state, state.get(promised)) if promised else {}
        applied: dict[str, set[str]] = {}
        for binding, found in works.items():
            for work in found:
                if is_applied(work):
                    applied.setdefault(work.metadata.namespace, set()).add(binding)
        return [
            Promised(
                ref,
                tuple(rows.get(ref.name, ())),
                frozenset(applied.get(execution_namespace(ref.name), ())),
                next((row.at for row in reports.get(ref.name, ()) if _shown(row, clusters.get(ref))), None),
            )
            for ref in refs
        ]

    def decide(self, snapshot: Promised, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        if not snapshot.reservations:
            return NOTHING
        collected = {} if snapshot.collected_at is None else {snapshot.ref.name: snapshot.collected_at}
        held = live(snapshot.reservations, collected_at=collected, now=now)
        kept = {one.key for one in held}
        ended = tuple(Drop(one) for one in snapshot.reservations if one.key not in kept)
        seen = tuple(
            Save(replace(one, applied_at=now))
            for one in held
            if one.applied_at is None
            and not one.reserved
            and one.binding in snapshot.applied
            and one.made_at is not None
            and now - one.made_at >= DISPATCH
        )
        wake_at = min((one.made_at + RESERVATION_EXPIRY for one in held if one.made_at is not None), default=None)
        return Decision(changes=(*ended, *seen), wake_at=wake_at, reason="PromiseCounted")


def _may_count(reservation: CapacityReservation, reports: Sequence[Collected]) -> bool:
    """Test whether a report is late enough for the Work to have been applied before it."""
    made = reservation.made_at
    return made is not None and any(one.at is not None and one.at - made >= DISPATCH for one in reports)


def _shown(report: Collected, cluster: Cluster | None) -> bool:
    """Test whether the scheduler sees what a report says: it reads the Cluster, which follows the report."""
    return cluster is not None and cluster.status.resource_summary == report.resource_summary


def is_applied(work: Work) -> bool:
    """Test whether the member has what the Work says now."""
    said = condition(work.status.conditions, APPLIED)
    return said is not None and said.status == "True" and said.observed_generation == work.metadata.generation

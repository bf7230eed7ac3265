"""Reservations: ends the reserved capacity of Works once a report of the cluster counts them, or when it expires.

The scheduler reserves capacity for replicas that no report of the cluster counts yet (`scheduling.ledger`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct, condition
from controlplane.apimachinery.names import execution_namespace
from controlplane.controllers.reads.bindings_on_clusters import works_of
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
"""A Work that is applied sooner after its reservation may still be the Work before that decision."""


class ReservationsSnapshot(Struct, frozen=True):
    """The reservations on a cluster, the bindings whose Works are applied there, and the time of its last report."""

    ref: Ref
    reservations: tuple[CapacityReservation, ...]
    applied: frozenset[str]  # bindings, as text
    collected_at: datetime | None  # time of the newest report; None: the Cluster does not show it yet


def _cluster_reported(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    if old is not None and (new is None or old.status.resource_summary != new.status.resource_summary):
        yield old.ref


def _report_collected(old: Collected | None, new: Collected | None) -> Iterator[Ref]:
    if new is not None:
        yield Ref(CLUSTER, "", new.key)


class Reservations(Controller):
    """Key: a Cluster. Writes its CapacityReservation rows.

    This controller runs in the group of the scheduler, so that the two never write one row at the same time. A new
    reservation does not make the cluster due, because there may be thousands in a second and only a report ends them
    early. Expired rows are ignored wherever reservations are counted.
    """

    name: ClassVar[str] = "reservations"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (CLUSTER,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch("row/Collected", _report_collected),
        Watch(CLUSTER, _cluster_reported),
    )
    owns: ClassVar[Ownership] = Ownership({}, rows=(CapacityReservation,))

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ReservationsSnapshot | None]:
        names = [ref.name for ref in refs]
        rows: dict[str, Sequence[CapacityReservation]] = state.rows(CapacityReservation, "cluster", names)
        if not rows:
            return [None] * len(refs)
        reports: dict[str, Sequence[Collected]] = state.rows(Collected, "key", names)
        clusters: dict[Ref, Cluster] = state.get(refs)
        uncounted = sorted(
            {
                Ref.parse(row.binding)
                for name, found in rows.items()
                for row in found
                if row.applied_at is None and not row.reserved and _may_count(row, reports.get(name, ()))
            }
        )
        works = works_of(state, state.get(uncounted)) if uncounted else {}
        applied: dict[str, set[str]] = {}
        for binding, found in works.items():
            for work in found:
                if is_applied(work):
                    applied.setdefault(work.metadata.namespace, set()).add(binding)
        return [
            ReservationsSnapshot(
                ref,
                tuple(rows.get(ref.name, ())),
                frozenset(applied.get(execution_namespace(ref.name), ())),
                next((row.at for row in reports.get(ref.name, ()) if _shown(row, clusters.get(ref))), None),
            )
            for ref in refs
        ]

    def decide(
        self, snapshot: ReservationsSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        if not snapshot.reservations:
            return NOTHING
        collected = {} if snapshot.collected_at is None else {snapshot.ref.name: snapshot.collected_at}
        held = live(snapshot.reservations, collected_at=collected, now=now)
        kept = {row.key for row in held}
        ended = tuple(Drop(row) for row in snapshot.reservations if row.key not in kept)
        applied = tuple(
            Save(replace(row, applied_at=now))
            for row in held
            if row.applied_at is None
            and not row.reserved
            and row.binding in snapshot.applied
            and row.made_at is not None
            and now - row.made_at >= DISPATCH
        )
        wake_at = min((row.made_at + RESERVATION_EXPIRY for row in held if row.made_at is not None), default=None)
        return Decision(changes=(*ended, *applied), wake_at=wake_at, reason="ReservationEnded")


def _may_count(reservation: CapacityReservation, reports: Sequence[Collected]) -> bool:
    """Test whether there is a report so long after the reservation that it may count the replicas of its Work."""
    made = reservation.made_at
    return made is not None and any(report.at is not None and report.at - made >= DISPATCH for report in reports)


def _shown(report: Collected, cluster: Cluster | None) -> bool:
    """Test whether the Cluster shows the resources of a report already, because that is what the scheduler reads."""
    return cluster is not None and cluster.status.resource_summary == report.resource_summary


def is_applied(work: Work) -> bool:
    """Test whether the present spec of a Work is applied on its member."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.status != "True":
        return False
    return applied.observed_generation == work.metadata.generation

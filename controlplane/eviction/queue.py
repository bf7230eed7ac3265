"""The eviction queue: which rows a binding has to have, compared with the stored rows [eviction-queue]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from controlplane.clusters import taints
from controlplane.engine.decision import Drop, Save
from controlplane.eviction import operator_orders
from controlplane.eviction.eligibility import earliest_judgement, has_finished, judge_taints
from controlplane.eviction.holds import Holds, manual_hold_reason
from controlplane.eviction.operator_orders import EXPEDITED
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import (
    ABANDONED,
    ENDED,
    HELD,
    HELD_BY_HAND,
    MAINTENANCE,
    ON_HOLD,
    QUEUED,
    RECOVERING,
    SKIPPED,
    STATE_MISSING,
    UNSTEADY,
    Eviction,
    Judgement,
    eviction_key,
)

NO_HOLDS = Holds()


def wanted_rows(
    binding: Binding,
    clusters: Mapping[str, Cluster],
    stored: Iterable[Eviction],
    *,
    clocks_from: datetime | None,
    judge_again: bool,
    holds: Holds = NO_HOLDS,
    now: datetime,
) -> tuple[Eviction, ...]:
    """Return the rows that a binding has to have: one for each target on a cluster with evicting taints.

    `clocks_from` None: the Failover gate is off, so there are no rows [failover-gate]. `holds`: the EvictionHolds, to
    test whether rows that are on hold still are.
    """
    if clocks_from is None or binding.metadata.deletion_timestamp is not None:
        return ()
    stored_rows = {row.cluster: row for row in stored if row.state not in ENDED or row.reason == SKIPPED}
    rows = []
    for target in binding.spec.clusters:
        cluster = clusters.get(target.name)
        if cluster is not None:
            old = stored_rows.get(target.name)
            row = _wanted_row(
                binding, cluster, old, clocks_from=clocks_from, judge_again=judge_again, holds=holds, now=now
            )
            rows += [] if row is None else [row]
    return tuple(rows)


def _wanted_row(
    binding: Binding,
    cluster: Cluster,
    old: Eviction | None,
    *,
    clocks_from: datetime,
    judge_again: bool,
    holds: Holds,
    now: datetime,
) -> Eviction | None:
    judgements = judge_taints(
        binding.spec, cluster, () if old is None else old.judged, clocks_from=clocks_from, judge_again=judge_again
    )
    if not judgements:
        return None
    active = operator_orders.active_orders(binding, cluster, held=old is not None and old.reason == HELD_BY_HAND)
    skip = active.get(operator_orders.SKIP)
    counting, ref, template = without_skipped_taints(judgements, skip), binding.ref, binding.spec.resource
    finished = has_finished(binding, cluster.metadata.name)
    first = None if finished else earliest_judgement(counting)
    fresh = Eviction(
        key=eviction_key(ref, cluster.metadata.name),
        binding=str(ref),
        cluster=cluster.metadata.name,
        resource_kind=f"{template.api_version}/{template.kind}",
        priority=EXPEDITED if operator_orders.EXPEDITE in active else binding.spec.priority,
        due_at=None if first is None else first.due_at,
        queued_at=now if old is None or old.queued_at is None else old.queued_at,
        generation=binding.metadata.generation,
        judged=judgements,
        failed_at=None if old is None else old.failed_at,
    )
    if finished:
        return fresh
    if first is None and skip is not None and counting != judgements:
        ended_at = now if old is None or old.ended_at is None else old.ended_at
        return ended_row(fresh, SKIPPED, f"skipped by {skip.by}: {skip.reason}", now=ended_at)
    if operator_orders.HOLD in active and first is not None:
        reason, message = manual_hold_reason(active[operator_orders.HOLD])
        return replace(fresh, state=HELD, reason=reason, message=message)
    if is_recovering(cluster, fresh.judged):
        message = "the conditions that caused the taints have ended; the taints stay until their removal windows end"
        return replace(fresh, state=RECOVERING, reason="Recovering", message=message)
    return fresh if old is None else _held_as_before(fresh, old, binding, holds, now=now)


def _held_as_before(fresh: Eviction, old: Eviction, binding: Binding, holds: Holds, *, now: datetime) -> Eviction:
    """Return the row with the hold of the stored row, if that still holds it without another check of the queue.

    A Hold order that held it is not active any more at this point. Missing state may have been reported since: the row
    is queued, and keeps its reason so that there is no second Event.
    """
    if old.state != HELD or old.reason == HELD_BY_HAND:
        return fresh
    if old.reason == UNSTEADY and old.judged != fresh.judged:
        return fresh  # a taint was added or removed; a taint of a user ends the hold
    if old.reason == ON_HOLD and not holds.covering(old, binding, now=now):
        return fresh  # the labels of its workload have changed
    same = old.generation == fresh.generation and old.due_at == fresh.due_at
    if not same and old.reason not in (ON_HOLD, MAINTENANCE):
        return fresh
    return replace(fresh, state=QUEUED if old.reason == STATE_MISSING else HELD, reason=old.reason, message=old.message)


def without_skipped_taints(
    judgements: Sequence[Judgement], skip: operator_orders.Order | None
) -> tuple[Judgement, ...]:
    """Return the judgements without those of taints that a Skip order covers."""
    if skip is None:
        return tuple(judgements)
    return tuple(
        judgement
        for judgement in judgements
        if (judgement.key, judgement.effect, judgement.time_added) not in skip.taints
    )


def ended_row(row: Eviction, reason: str, message: str, *, now: datetime, state: str = ABANDONED) -> Eviction:
    """Return the row of an eviction that has ended, because the copy was evicted or the eviction was abandoned."""
    return replace(row, state=state, reason=reason, message=message, due_at=None, ended_at=now)


def is_recovering(cluster: Cluster, judged: Iterable[Judgement]) -> bool:
    """Test whether only removal windows keep the taints that evict a copy [recovered-clusters-cancel].

    The condition of each such taint has ended, so the eviction must not take place. `judged`: all taints of the
    cluster, as they were judged for the copy.
    """
    leaving = {(judgement.key, judgement.effect) for judgement in judged if judgement.due_at is not None}
    return bool(leaving) and leaving <= taints.ending(cluster)


def row_changes(
    stored: Iterable[Eviction], wants: Iterable[Eviction], clusters: Mapping[str, Cluster], *, now: datetime
) -> tuple[Save | Drop, ...]:
    """Return the changes that turn the stored rows into the wanted rows.

    `clusters`: those with evicting taints. Rows of ended evictions are kept until their cluster has no such taint,
    because the metrics of the outage are computed from them.
    """
    before = {row.key: row for row in stored}
    after = {row.key: row for row in wants}
    changes: list[Save | Drop] = []
    for key, row in before.items():
        if key in after:
            continue
        if row.cluster not in clusters or (row.due_at is None and row.state not in ENDED):
            changes.append(Drop(row))
        elif row.due_at is not None:
            changes.append(
                Save(ended_row(row, "TargetGone", "the binding is no longer placed on this cluster", now=now))
            )
    saved = (Save(row) for key, row in after.items() if row != before.get(key))
    return (*changes, *saved)

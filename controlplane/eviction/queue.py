"""The eviction queue: which rows a binding wants, compared with those stored (D6, D7, D12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from controlplane.clusters import taints
from controlplane.engine.decision import Drop, Save
from controlplane.eviction import operator_orders
from controlplane.eviction.eligibility import earliest_judgement, judge_taints
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
    anew: bool,
    holds: Holds = NO_HOLDS,
    now: datetime,
) -> tuple[Eviction, ...]:
    """Return the rows a binding shall have: one per target on a cluster with taints that move workloads.

    `clocks_from` None: the gate is off and nothing is wanted (D17). `holds`: those of what is on hold already.
    """
    if clocks_from is None or binding.metadata.deletion_timestamp is not None:
        return ()
    known = {row.cluster: row for row in stored if row.state not in ENDED or row.reason == SKIPPED}
    rows = []
    for target in binding.spec.clusters:
        cluster = clusters.get(target.name)
        if cluster is not None:
            old = known.get(target.name)
            row = _wanted_row(binding, cluster, old, clocks_from=clocks_from, anew=anew, holds=holds, now=now)
            rows += [] if row is None else [row]
    return tuple(rows)


def _wanted_row(
    binding: Binding,
    cluster: Cluster,
    old: Eviction | None,
    *,
    clocks_from: datetime,
    anew: bool,
    holds: Holds,
    now: datetime,
) -> Eviction | None:
    judgements = judge_taints(
        binding.spec, cluster, () if old is None else old.judged, clocks_from=clocks_from, anew=anew
    )
    if not judgements:
        return None
    ordered = operator_orders.active_orders(binding, cluster, held=old is not None and old.reason == HELD_BY_HAND)
    skip = ordered.get(operator_orders.SKIP)
    standing, ref, template = without_skipped_taints(judgements, skip), binding.ref, binding.spec.resource
    first = earliest_judgement(standing)
    fresh = Eviction(
        key=eviction_key(ref, cluster.metadata.name),
        binding=str(ref),
        cluster=cluster.metadata.name,
        resource_kind=f"{template.api_version}/{template.kind}",
        priority=EXPEDITED if operator_orders.EXPEDITE in ordered else binding.spec.priority,
        due_at=None if first is None else first.due_at,
        queued_at=now if old is None or old.queued_at is None else old.queued_at,
        generation=binding.metadata.generation,
        judged=judgements,
        failed_at=None if old is None else old.failed_at,
    )
    if first is None and skip is not None and standing != judgements:
        ended_at = now if old is None or old.ended_at is None else old.ended_at
        return replace(
            ended_row(fresh, SKIPPED, f"skipped by {skip.by}: {skip.reason}", now=ended_at), judged=judgements
        )
    if operator_orders.HOLD in ordered and first is not None:
        reason, message = manual_hold_reason(ordered[operator_orders.HOLD])
        return replace(fresh, state=HELD, reason=reason, message=message)
    if is_recovering(cluster, fresh):
        message = "the condition behind every taint has passed; the taints' removal windows still run"
        return replace(fresh, state=RECOVERING, reason="Recovering", message=message)
    same = old is not None and old.generation == fresh.generation and old.due_at == fresh.due_at
    if old is not None and old.reason == UNSTEADY and old.judged != judgements:
        return fresh  # a taint came or went: a person's ends the hold
    if old is not None and old.state == HELD and old.reason == ON_HOLD and not holds.covering(old, binding, now=now):
        return fresh  # its workload has other labels now
    if old is not None and old.state == HELD and (same or old.reason in (ON_HOLD, MAINTENANCE)) and _may_stay_held(old):
        return replace(fresh, state=HELD, reason=old.reason, message=old.message)
    if old is not None and old.state == HELD and same and old.reason == STATE_MISSING:
        return replace(fresh, reason=old.reason, message=old.message)  # nothing is said twice of what it is held for
    return fresh


def _may_stay_held(old: Eviction) -> bool:
    """Test whether a held row may stay held unseen: not what somebody held by hand and no longer does, nor what waits
    for state that may have come."""
    return old.reason not in (HELD_BY_HAND, STATE_MISSING)


def without_skipped_taints(
    judgements: Sequence[Judgement], skip: operator_orders.Order | None
) -> tuple[Judgement, ...]:
    """Return the judgements that still count: those of taints somebody skipped do not move the copy."""
    if skip is None:
        return tuple(judgements)
    return tuple(one for one in judgements if (one.key, one.effect, one.time_added) not in skip.taints)


def ended_row(row: Eviction, reason: str, message: str, *, now: datetime, state: str = ABANDONED) -> Eviction:
    """Return the row of an eviction that is over: it happened, or nobody wants it any more."""
    return replace(row, state=state, reason=reason, message=message, due_at=None, ended_at=now)


def is_recovering(cluster: Cluster, row: Eviction) -> bool:
    """Test whether no taint that moves this copy is still meant: only removal windows keep them on (D12)."""
    leaving = {(one.key, one.effect) for one in row.judged if one.due_at is not None}
    return bool(leaving) and leaving <= taints.ending(cluster)


def row_changes(
    stored: Iterable[Eviction], wants: Iterable[Eviction], clusters: Mapping[str, Cluster], *, now: datetime
) -> tuple[Save | Drop, ...]:
    """Return what turns the stored rows into the wanted ones; nothing where they are equal.

    `clusters`: those with taints that move workloads. What is over stays on record until its cluster recovers.
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
            changes.append(Save(ended_row(row, "TargetGone", "the binding is no longer placed there", now=now)))
    saved = (Save(row) for key, row in after.items() if row != before.get(key))
    return (*changes, *saved)

"""What if: what changes of the fleet would do to the workloads, worked out beforehand on a snapshot.

The functions that decide about evictions, drains and placements are the same as in operation. So the answer is what
then happens, as far as nothing else changes.

Two things are left out, because they follow from later reports of members. Room that is freed after the moment of the
snapshot is not counted: old copies that are removed, and reservations that expire. Drains, failbacks and evictions
without a place try again later, and may find a place in that room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from controlplane.apimachinery.meta import Ref
from controlplane.eviction.scheduler_dry_run import SchedulerDryRun
from controlplane.insight.changes import Change
from controlplane.insight.effects import Affected, Effects, sentence_of
from controlplane.insight.supposed.departures import NO_REFUGE, Outcome, Outcomes, gains, replicas_on
from controlplane.insight.supposed.drains import plan_drains
from controlplane.insight.supposed.failbacks import plan_failbacks
from controlplane.insight.supposed.fleet import SupposedFleet, supposed_fleet
from controlplane.insight.supposed.override_edits import overridden, remarks
from controlplane.insight.supposed.policy_edits import plan_policy_edits
from controlplane.insight.supposed.removals import deleted_bindings, plan_removed_clusters, record_removed
from controlplane.insight.supposed.reschedules import plan_reschedules
from controlplane.insight.supposed.room import overpacked
from controlplane.insight.supposed.snapshot import Snapshot
from controlplane.insight.supposed.taint_evictions import TaintEvictions
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings


def what_if(
    snapshot: Snapshot,
    changes: Sequence[Change],
    settings: Settings,
    *,
    progress: Callable[[float], None] = lambda share: None,
    now: datetime,
) -> Effects:
    """Return what follows from changes that all happen at `now`. Nothing else changes meanwhile.

    `settings`: those in force now. The snapshot has to contain all bindings that the changes concern. `progress` is
    called with the share of the evictions that have been worked out.
    """
    fleet = supposed_fleet(snapshot, changes, settings, now=now)
    deleted = deleted_bindings(snapshot, fleet.deleted)
    outcomes = Outcomes()
    record_removed(snapshot, deleted, outcomes)
    dry_run = SchedulerDryRun(
        lambda: Fleet.of(fleet.clusters.values(), settings=fleet.settings),
        fleet.settings,
        reserved_capacity=snapshot.reserved_capacity,
        applications=snapshot.applications,
        groups=snapshot.groups,
    )
    queue = TaintEvictions(snapshot, fleet, deleted, outcomes=outcomes, now=now)
    queue.plan(dry_run, progress)
    end = max((one.at for one in outcomes.by_binding.values() if one.at is not None), default=None)
    drained = plan_drains(snapshot, fleet, deleted, dry_run, outcomes, evictions_end=end, now=now)
    plan_removed_clusters(snapshot, fleet, deleted, outcomes, now=now)
    plan_policy_edits(snapshot, fleet, deleted, outcomes, now=now)
    plan_reschedules(snapshot, fleet, deleted, outcomes, now=now)
    returned = plan_failbacks(snapshot, fleet, deleted, outcomes, now=now)
    ends = [moment for moment in (end, drained, returned) if moment is not None]
    return _effects(snapshot, fleet, outcomes, queue, end=max(ends, default=None), now=now)


def _effects(
    snapshot: Snapshot,
    fleet: SupposedFleet,
    outcomes: Outcomes,
    queue: TaintEvictions,
    *,
    end: datetime | None,
    now: datetime,
) -> Effects:
    """Return the outcomes as lists, in the order of the bindings."""
    found = outcomes.in_order()
    moving = [one for one in found if one.moves and one.binding.spec.clusters]
    placed = [one for one in found if one.moves and not one.binding.spec.clusters]
    without_place = list(_stuck(found, lambda reason: reason == NO_REFUGE))
    held = list(_stuck(found, lambda reason: reason != NO_REFUGE))
    waiting = [
        one.affected(one.left, gains(one.binding, one.after or ()), reason=one.waits[0], message=one.waits[1])
        for one in moving
        if one.waits[0]
    ]
    gained = [(one.binding, gains(one.binding, one.after or ())) for one in (*moving, *placed)]
    packed = overpacked(gained, fleet.clusters, snapshot.reserved_capacity.totals, fleet.settings)
    namespaces = _namespaces(found, outcomes.removed)
    tier = queue.tier
    clusters = {cluster.metadata.name: cluster for cluster in snapshot.clusters}
    changed = overridden(snapshot.copies, snapshot.edited, fleet.deleted, clusters, now=now)
    return Effects(
        sentence=sentence_of(
            moves=len(moving),
            placed=len(placed),
            without_place=len(without_place),
            waiting=len(waiting),
            held=len(held),
            removed=len(outcomes.removed),
            overridden=len(changed),
            cancelled=queue.cancelled,
            overpacked=len(packed),
            namespaces=len(namespaces),
            refused=fleet.refused,
        ),
        moves=tuple(one.move() for one in moving),
        placed=tuple(one.move() for one in placed),
        without_place=tuple(without_place),
        waits_for_person=tuple(waiting),
        held=tuple(held),
        stays=tuple(_with_reasons(one, one.stays) for one in found if one.stays),
        removed=tuple(outcomes.removed),
        overridden=changed,
        overpacked=packed,
        namespaces=namespaces,
        refused=fleet.refused,
        remarks=(*fleet.remarks, *remarks(snapshot.edited)),
        queued_before=queue.queued_before,
        cancelled=queue.cancelled,
        tier=tier.name,
        tier_because=tier.why,
        rate=tier.rate,
        eta_seconds=None if end is None else (end - now).total_seconds(),
    )


def _stuck(found: Iterable[Outcome], wanted: Callable[[str], bool]) -> Iterable[Affected]:
    """Yield the bindings with copies that cannot leave for a wanted reason, each with these copies only."""
    for one in found:
        stuck = {name: why for name, why in one.stuck.items() if wanted(why[0])}
        if stuck:
            yield _with_reasons(one, stuck)
        elif one.unplaced and wanted(NO_REFUGE):
            yield one.affected({}, reason=NO_REFUGE, message=one.unplaced)


def _with_reasons(outcome: Outcome, reasons: Mapping[str, tuple[str, str]]) -> Affected:
    """Return the copies of a binding on some clusters, with the reason of the first and all different messages."""
    copies = {name: replicas_on(outcome.binding, name) for name in reasons}
    reason = next(iter(reasons.values()))[0]
    message = "; ".join(dict.fromkeys(message for _, message in reasons.values()))
    return outcome.affected(copies, reason=reason, message=message)


def _namespaces(found: Iterable[Outcome], removed: Iterable[Affected]) -> tuple[str, ...]:
    """Return the namespaces of bindings that move, cannot leave, or are removed. Cluster-scoped bindings have none."""
    touched = [one.binding.metadata.namespace for one in found if one.moves or one.stuck or one.unplaced]
    touched += [Ref.parse(one.binding).namespace for one in removed]
    return tuple(sorted(set(touched) - {""}))

"""Readiness: what would happen to a binding if one of its clusters failed now, and what would prevent a failover.

Everything that is checked during a failover is checked beforehand: feature gate, controllers, failure detection, taint
policies, tolerations, a refuge by a dry run of the scheduler, state preservation, purge mode and holds. Each obstacle
names its remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from controlplane.apimachinery.meta import Struct
from controlplane.apimachinery.names import DIRECTLY_UNREACHABLE_ANNOTATION
from controlplane.clusters import eviction_tier
from controlplane.clusters.tolerations import wait_seconds
from controlplane.eviction.eligibility import finished_copies, stays_as_decided
from controlplane.eviction.purge import purge_mode
from controlplane.eviction.refuge import refuge_from
from controlplane.eviction.state_preservation import preserved_state
from controlplane.insight.failure_outlook import FailureOutlook, Situation
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import (
    NO_EXECUTE,
    Cluster,
    Taint,
)
from controlplane.kinds.obstacle import BLOCKS, WARNS, Obstacle
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.policy.unreachable_wait import parse_wait
from controlplane.kinds.rows import ENDED, HELD_BY_HAND, MAINTENANCE, ON_HOLD, UNSTEADY, Eviction
from controlplane.settings import Settings

REQUIRED_CONTROLLERS = (
    *("probes", "cluster_status", "cluster_taints", "eviction_queue", "evictions"),
    *("scheduler", "works", "execution", "graceful_eviction"),
)

TIER_REMEDIES = {
    eviction_tier.NORMAL: "set resourceEvictionRate in FailoverConfiguration/default above 0",
    eviction_tier.SECONDARY: (
        "repair clusters, or set secondaryResourceEvictionRate in FailoverConfiguration/default above 0"
    ),
    eviction_tier.STOPPED: "repair clusters, or raise unhealthyClusterThreshold or lower largeClusterNumThreshold",
    eviction_tier.BLIND: "check from another network whether the clusters are down; evictions resume once one is Ready",
}
"""What to do if no evictions take place, by tier."""
HOLD_REMEDIES = {
    ON_HOLD: "delete the EvictionHold, or wait until it expires",
    MAINTENANCE: "end the MaintenanceWindow (spec.until), delete it, or wait until it is over",
    HELD_BY_HAND: "release the eviction: lifeboat release NAMESPACE/NAME",
    UNSTEADY: "repair what makes the cluster flap, or add a taint by hand to empty it all the same",
}
"""What to do about a hold, by reason."""


HAS_FINISHED = "it has finished; another copy would run a second time"
"""Why a copy stays that has nothing to lose."""


class Prospect(Struct, frozen=True):
    """What would happen if one cluster of a binding failed now.

    `waits_for`: what new copies would wait for after the eviction; "": they start at once.
    """

    cluster: str
    moves: bool
    after_seconds: float | None = None  # between the taint and the eviction
    refuge: str = ""  # where it would be placed, or why no cluster was found
    waits_for: str = ""


class Readiness(Struct, frozen=True):
    """The answer for one binding. `ready`: it would move away from each of its clusters, where it has not finished."""

    binding: str
    ready: bool
    obstacles: tuple[Obstacle, ...] = ()
    prospects: tuple[Prospect, ...] = ()


def readiness(
    binding: Binding, outlook: FailureOutlook, *, rows: Iterable[Eviction] = (), fleet_wide: bool = True
) -> Readiness:
    """Return whether a binding would move away from its clusters if they failed. `rows`: its rows in the eviction
    queue.

    `fleet_wide` False: obstacles that concern all bindings (`fleet_obstacles`) are left out. An attached binding
    (`is_attached`) counts as ready, with an obstacle that names the workloads it is placed with.
    """
    if is_attached(binding):
        return _attached_readiness(binding)
    situation, settings, now = outlook.situation, outlook.settings, outlook.now
    general = [*fleet_obstacles(situation, settings, now=now)] if fleet_wide else []
    general += _binding_obstacles(binding, settings)
    obstacles, prospects, finished = list(general), [], finished_copies(binding)
    for target in binding.spec.clusters:
        cluster = outlook.clusters.get(target.name)
        if cluster is None:
            obstacles.append(_cluster_gone(binding, target.name))
            prospects.append(Prospect(target.name, False))
            continue
        if target.name in finished:
            prospects.append(Prospect(target.name, False, refuge=HAS_FINISHED))
            continue
        taints = outlook.taints(cluster)
        specific = [*outlook.undetected(cluster), *_taint_obstacles(binding, cluster, taints)]
        answer = outlook.dry_run.place_without(binding, {target.name})
        refuge = refuge_from(binding, {target.name}, answer, settings, source_ready=False, clusters=outlook.clusters)
        withheld = [*_dispatch_suspended(binding, target.name, answer.clusters)]
        specific += withheld
        if not refuge.found and not withheld and not _suspended_altogether(binding):
            specific.append(_no_refuge(target.name, refuge.why))
        specific += [
            *_state_obstacles(binding, target.name, settings),
            *_hold_obstacles(binding, cluster, situation, now=now),
        ]
        obstacles += specific
        stays = any(obstacle.severity == BLOCKS for obstacle in (*general, *specific))
        last = "" if stays else _waits_for(binding, target.name, settings)
        prospects.append(Prospect(target.name, not stays, _eviction_delay(binding, taints), refuge.why, last))
    if not binding.spec.clusters:
        obstacles.append(_not_placed(binding))
    for row in rows:
        cluster = outlook.clusters.get(row.cluster)
        obstacles += [_waiting_eviction(row)] if row.reason and row.due_at is not None else []
        obstacles += _decided_to_stay(binding, cluster, row) if cluster is not None and row.state not in ENDED else ()
    ready = not any(obstacle.severity == BLOCKS for obstacle in obstacles)
    return Readiness(str(binding.ref), ready, tuple(obstacles), tuple(prospects))


def fleet_obstacles(situation: Situation, settings: Settings, *, now: datetime) -> tuple[Obstacle, ...]:
    """Return what prevents the failover of every binding: gate, controllers and the eviction rate."""
    return (*_switched_off(settings), *_tier_obstacles(situation, settings, now=now))


def nothing_fails_over(tier: eviction_tier.Tier, settings: Settings) -> bool:
    """Test whether no binding at all would fail over in a tier of the eviction rate, as `fleet_obstacles` finds."""
    return tier.rate <= 0 or any(True for _ in _switched_off(settings))


def is_attached(binding: Binding) -> bool:
    """Test whether a binding has no placement of its own, but is placed with the workloads that need it
    (propagateDeps)."""
    return binding.spec.placement is None and bool(binding.spec.required_by)


def _attached_readiness(binding: Binding) -> Readiness:
    names = [item.name for item in binding.spec.required_by]
    message = f"it is placed with {', '.join(names)} (propagateDeps), so it is not evicted on its own"
    obstacle = Obstacle("GoesAlong", WARNS, message, f"read {', '.join(f'{name}/readiness' for name in names)}")
    return Readiness(str(binding.ref), True, (obstacle,))


def _eviction_delay(binding: Binding, taints: Sequence[Taint]) -> float | None:
    moments = (wait_seconds(binding.spec, taint, taints) for taint in taints)
    return min((moment for moment in moments if moment is not None), default=None)


def _switched_off(settings: Settings) -> Iterator[Obstacle]:
    if not settings.gate("Failover"):
        yield Obstacle(
            "GateOff",
            BLOCKS,
            "the feature gate Failover is off, so taints evict no copies",
            "set featureGates.Failover to true in FailoverConfiguration/default",
        )
    for name in REQUIRED_CONTROLLERS:
        if not settings.runs(name):
            yield Obstacle(
                "ControllerDisabled",
                BLOCKS,
                f"controller {name} is switched off",
                f"remove -{name} from LIFEBOAT_CONTROLLERS, or add {name}, and restart",
            )


def _binding_obstacles(binding: Binding, settings: Settings) -> Iterator[Obstacle]:
    """Yield what prevents or impairs a move of the binding, apart from its clusters."""
    spec = binding.spec
    if spec.suspension is not None and _suspended_altogether(binding):
        what, where = (
            ("scheduling", "of the binding") if spec.suspension.scheduling else ("dispatching", "in the policy")
        )
        remedy = f"set spec.suspension.{what} {where} to false"
        yield Obstacle("Suspended", BLOCKS, f"{what} is suspended: no new copy would start", remedy)
    behaviour = None if spec.failover is None else spec.failover.cluster
    rules = behaviour is not None and behaviour.state_preservation is not None
    directly = purge_mode(binding, settings) == DIRECTLY
    if rules and not settings.gate("StatefulFailoverInjection"):
        yield Obstacle(
            "StateIgnored",
            WARNS,
            "statePreservation has no effect while the feature gate StatefulFailoverInjection is off",
            "set featureGates.StatefulFailoverInjection to true",
        )
    elif rules and not directly:
        yield Obstacle(
            "StateIgnored",
            WARNS,
            "statePreservation has no effect with purgeMode Gracefully",
            "set spec.failover.cluster.purgeMode to Directly in the policy",
        )
    elif rules and len(spec.clusters) > 1:
        yield Obstacle(
            "StateIgnored",
            WARNS,
            "state is preserved only if the workload runs on one cluster, and this one runs on several",
            "set a spread constraint with maxGroups 1 in the policy",
        )
    limit = binding.metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION, "")
    if directly and settings.directly_unreachable == "Wait" and parse_wait(limit) is None:
        yield Obstacle(
            "DirectlyUnreachable",
            WARNS,
            "purgeMode is Directly: after the eviction from a cluster that cannot be reached, new copies start only "
            "once an operator has confirmed that the cluster is down",
            "fence the cluster when it happens (lifeboat fence <name>), or annotate the policy with "
            f"{DIRECTLY_UNREACHABLE_ANNOTATION}: After=<seconds>",
        )


def _suspended_altogether(binding: Binding) -> bool:
    """Test whether scheduling is suspended, or dispatching to all clusters."""
    suspension = binding.spec.suspension
    return suspension is not None and bool(suspension.scheduling or suspension.dispatching)


def _waits_for(binding: Binding, cluster: str, settings: Settings) -> str:
    """Return what new copies wait for once the binding has left a cluster that cannot be reached; "": nothing."""
    if purge_mode(binding, settings) != DIRECTLY or settings.directly_unreachable != "Wait":
        return ""
    limit = binding.metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION, "")
    after = parse_wait(limit)
    if after is None:
        return f"an operator who confirms that cluster {cluster} is down: lifeboat fence {cluster}"
    return f"{after.total_seconds():g} s after the eviction ({DIRECTLY_UNREACHABLE_ANNOTATION}: {limit})"


def _tier_obstacles(situation: Situation, settings: Settings, *, now: datetime) -> Iterator[Obstacle]:
    maintained = situation.holds.maintained(now=now)
    fleet = eviction_tier.fleet_health(situation.clusters, maintained=maintained)
    tier = eviction_tier.in_force(fleet, situation.fleet, settings)
    if tier.rate <= 0:
        why = tier.why or "resourceEvictionRate is 0"
        yield Obstacle("RateStopped", BLOCKS, f"no evictions take place at present: {why}", TIER_REMEDIES[tier.name])


def _taint_obstacles(binding: Binding, cluster: Cluster, taints: Sequence[Taint]) -> Iterator[Obstacle]:
    name = cluster.metadata.name
    if not taints:
        yield Obstacle(
            "NoTaintPolicy",
            BLOCKS,
            f"no ClusterTaintPolicy adds a taint that evicts workloads when cluster {name} is not Ready",
            "create a ClusterTaintPolicy with effect NoExecute or PreferNoExecute on Ready False and Unknown",
            name,
        )
        return
    if _eviction_delay(binding, taints) is not None:
        return
    if any(taint.effect == NO_EXECUTE for taint in taints):
        named = ", ".join(dict.fromkeys(item.key for item in taints if item.effect == NO_EXECUTE))
        yield Obstacle(
            "Tolerated",
            BLOCKS,
            f"the placement tolerates without a time limit the taints that cluster {name} would get: {named}",
            "set tolerationSeconds of the clusterToleration in the policy, or remove it",
            name,
        )
    else:
        yield Obstacle(
            "StaysByDefault",
            BLOCKS,
            f"cluster {name} would only get PreferNoExecute, and the policy has no spec.failover.cluster",
            "set spec.failover.cluster in the policy, or use effect NoExecute",
            name,
        )


def _no_refuge(cluster: str, why: str) -> Obstacle:
    remedy = "widen the placement's affinity or spread, free capacity, or join another cluster"
    return Obstacle(
        "NoRefuge", BLOCKS, f"no other cluster was found for the copy on cluster {cluster}: {why}", remedy, cluster
    )


def _dispatch_suspended(binding: Binding, cluster: str, refuge: Iterable[TargetCluster]) -> Iterator[Obstacle]:
    """Yield an obstacle if dispatching to a new cluster is suspended. `refuge`: where the binding would be."""
    suspension = binding.spec.suspension
    withheld = None if suspension is None else suspension.dispatching_on_clusters
    names = [item.name for item in refuge if binding.spec.target(item.name) is None]
    suspended = [name for name in names if withheld is not None and name in withheld.cluster_names]
    if suspended:
        message = (
            f"the copy from cluster {cluster} would not start on {', '.join(suspended)}: dispatching there is suspended"
        )
        remedy = "remove the cluster from spec.suspension.dispatchingOnClusters in the policy"
        yield Obstacle("Suspended", BLOCKS, message, remedy, cluster)


def _state_obstacles(binding: Binding, cluster: str, settings: Settings) -> Iterator[Obstacle]:
    problem = preserved_state(binding, cluster, settings).problem
    if problem:
        held = settings.state_preservation_on_missing == "Hold"
        yield Obstacle(
            "StateMissing",
            BLOCKS if held else WARNS,
            f"the state to preserve cannot be read from the copy on {cluster}: {problem}",
            "correct the jsonPath in the policy, or let the workload report it; with statePreservationOnMissing: "
            "Proceed the copy leaves without the state",
            cluster,
        )


def _hold_obstacles(binding: Binding, cluster: Cluster, situation: Situation, *, now: datetime) -> Iterator[Obstacle]:
    row = Eviction("", str(binding.ref), cluster.metadata.name)
    reason, message = situation.holds.why(row, binding, cluster, now=now)
    if reason:
        yield Obstacle(reason, BLOCKS, message, HOLD_REMEDIES[reason], cluster.metadata.name)


def _waiting_eviction(row: Eviction) -> Obstacle:
    message = f"the eviction from cluster {row.cluster} waits: {row.message or row.reason}"
    return Obstacle("Waiting", WARNS, message, "see the item in the eviction queue", row.cluster)


def _decided_to_stay(binding: Binding, cluster: Cluster, row: Eviction) -> Iterator[Obstacle]:
    """Yield an obstacle if a copy stays in the present outage, although its policy would now have it leave."""
    judged = stays_as_decided(binding.spec, cluster, row)
    if judged is not None:
        taint = f"{judged.key}:{judged.effect}"
        yield Obstacle(
            "DecidedToStay",
            WARNS,
            f"the copy on cluster {row.cluster} stays although {taint} is there: that was decided when the taint "
            "appeared, and later edits of the policy do not count for it",
            "set eviction.reevaluatePolicies, or move the copy with a Drain of the cluster",
            row.cluster,
        )


def _cluster_gone(binding: Binding, cluster: str) -> Obstacle:
    message = f"it is placed on cluster {cluster}, which was removed, and no other cluster was found for it"
    remedy = (
        f"read the reason in {binding.metadata.name}/explain; widen the placement, free capacity, or join a cluster"
    )
    return Obstacle("ClusterGone", BLOCKS, message, remedy, cluster)


def _not_placed(binding: Binding) -> Obstacle:
    message = "it is placed on no cluster, so there is nothing to move"
    return Obstacle("NotPlaced", BLOCKS, message, f"read the reason in {binding.metadata.name}/explain")

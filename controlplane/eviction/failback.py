"""Failback: move a binding back to a cluster that it left, gracefully, because a user requests it [recovered-clusters].

The clusters it went to give replicas back. A copy that leaves completely gets an eviction task like any other; a copy
that gives some replicas back gets a task that keeps these replicas running. So nothing is removed before the returned
copy is healthy. With purge mode Directly an old copy that leaves completely is removed first, as the policy requires. A
part of a copy runs on: other copies of the workload run beside it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
import numpy as np

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Ref, condition, to_seconds
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.clusters import health
from controlplane.clusters.tolerations import spelled
from controlplane.engine.decision import CapacityGuard
from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.purge import purge_mode, with_partial_task, with_task
from controlplane.eviction.state_preservation import PreservedState, missing_state_reason, preserved_state
from controlplane.kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.binding import (
    FAILED_BACK,
    PARTLY_FAILED_BACK,
    Binding,
    GracefulEvictionTask,
    ResourceBindingSpec,
    TargetCluster,
    origin,
)
from controlplane.kinds.binding.origin import Origin
from controlplane.kinds.cluster import ACCESS_LOST, EVICTING_EFFECTS, READY, Cluster
from controlplane.kinds.failback import FailbackSpec
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling import binding_outcome, divide
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.filters import refusal
from controlplane.scheduling.placement_plan import AGGREGATED, DYNAMIC
from controlplane.scheduling.question import Question
from controlplane.scheduling.refusals import Attempt
from controlplane.scheduling.schedule import Placed, schedule
from controlplane.settings import Settings

READY_FOR = timedelta(minutes=10)
"""How long a cluster has to be Ready before anything moves back to it, so that nothing moves to a flapping cluster."""


class FailbackPlan(msgspec.Struct, frozen=True):
    """The plan to move a binding back to one cluster. `leaves`: the clusters that give all or some of their
    replicas."""

    binding: Binding  # after the failback
    cluster: str
    replicas: int
    leaves: tuple[str, ...]
    reservations: tuple[CapacityReservation, ...] = ()
    capacity_guards: tuple[CapacityGuard, ...] = ()


class FailbackRequest(msgspec.Struct, frozen=True):
    """Who requested the failback, for the tasks. `held`: returns why a cluster may not be left; "": it may."""

    producer: str
    message: str
    held: Callable[[str], str] = lambda giver: ""


class FailbackBlocked(msgspec.Struct, frozen=True):
    """The binding cannot move back now."""

    why: str


def unfit_reason(cluster: Cluster | None, name: str, *, require_ready_time: bool = True, now: datetime) -> str:
    """Return why nothing may move back to a cluster; "": it may.

    `require_ready_time` False: it does not matter for how long the cluster has been Ready.
    """
    if cluster is None or cluster.terminating:
        return f"cluster {name} is gone"
    taint = next((item for item in cluster.spec.taints if item.effect in EVICTING_EFFECTS), None)
    if taint is not None:
        return f"cluster {name} has the taint {spelled(taint)}, which would evict it again"
    if cluster.ready != health.TRUE:
        return f"cluster {name} is not Ready"
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    if lost is not None and lost.status == health.TRUE:
        return f"access to cluster {name} is lost: {lost.message}"
    moment = ready_long_enough_at(cluster)
    if require_ready_time and moment is not None and moment > now:
        return (
            f"cluster {name} has been Ready for less than {READY_FOR.total_seconds() / 60:.0f} minutes; "
            f"it has to stay so until {moment:%Y-%m-%dT%H:%M:%SZ}"
        )
    return ""


def ready_long_enough_at(cluster: Cluster) -> datetime | None:
    """Return when a Ready cluster has been Ready for long enough; None: it is not known since when it is Ready."""
    ready = condition(cluster.status.conditions, READY)
    since = None if ready is None else ready.last_transition_time
    return None if since is None else to_seconds(since) + READY_FOR


def refusal_causes(
    spec: FailbackSpec, binding: Binding | None, clusters: Mapping[str, Cluster], *, now: datetime
) -> Iterator[Cause]:
    """Yield why a failback is refused when it is written.

    `binding`: the binding it names; None: it does not exist. `clusters`: the cluster it names and those the binding has
    left. A dry run moves nothing, so it also plans for a cluster that became Ready a moment ago.
    """
    require_ready_time = not spec.dry_run
    if spec.cluster:
        why = unfit_reason(clusters.get(spec.cluster), spec.cluster, require_ready_time=require_ready_time, now=now)
        if why:
            yield invalid("spec.cluster", spec.cluster, f"{why}; create the failback once that is over")
    if not spec.binding:
        return
    earlier = None if binding is None else origin.origin_of(binding)
    if binding is None:
        yield invalid("spec.binding", spec.binding, "there is no such binding; write <namespace>/<name>")
    elif earlier is None:
        rule = "it is where it was before its last failover, or its placement has changed since, so nothing moves back"
        yield invalid("spec.binding", spec.binding, rule)
    elif spec.cluster and spec.cluster not in earlier.left:
        yield invalid("spec.binding", spec.binding, f"it has not left cluster {spec.cluster}")
    elif not spec.cluster:
        reasons = [
            unfit_reason(clusters.get(name), name, require_ready_time=require_ready_time, now=now)
            for name in sorted(earlier.left)
        ]
        if all(reasons):
            yield invalid("spec.binding", spec.binding, f"{'; '.join(reasons)}; create the failback once that is over")


def binding_ref(text: str) -> Ref:
    """Return the reference of the binding that a failback names: <namespace>/<name>, or <name> if it is
    cluster-scoped."""
    namespace, slash, name = text.rpartition("/")
    return Ref(RESOURCE_BINDING, namespace, name) if slash else Ref(CLUSTER_RESOURCE_BINDING, "", name)


class FailbackPlanner:
    """Plans failbacks one after the other against the clusters of one moment. Each plan reserves its capacity."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        reserved_capacity: ReservedCapacity,
        settings: Settings,
        *,
        now: datetime,
    ) -> None:
        self._settings, self._now = settings, now
        self._fleet = Fleet.of(clusters, settings=settings)
        self._ledger = binding_outcome.ledger(self._fleet, reserved_capacity.totals)
        self._seen = reserved_capacity.seen

    def plan(
        self, binding: Binding, earlier: Origin, cluster: str, request: FailbackRequest
    ) -> FailbackPlan | FailbackBlocked:
        """Return how a binding moves back to a cluster, or why it cannot. The scheduler decides whether it may be
        there."""
        spec = binding.spec
        if spec.placement is None:
            return FailbackBlocked("it has no placement, so the scheduler cannot choose clusters for it")
        if spec.scheduling_suspended:
            return FailbackBlocked("its scheduling is suspended")
        busy = [task.from_cluster for task in spec.graceful_eviction_tasks if task.from_cluster != cluster]
        if busy:
            return FailbackBlocked(f"it is still leaving cluster {', '.join(busy)}")
        bare = msgspec.structs.replace(spec, graceful_eviction_tasks=())
        found = self._question(binding, bare, cluster)
        if isinstance(found, FailbackBlocked):
            return found
        question, attempt = found
        divided = question.workload and not question.bundled and spec.placement.divided
        wanted = (
            self._divided(binding, earlier, cluster, question, attempt)
            if divided
            else self._duplicated(binding, bare, earlier, cluster, question)
        )
        if isinstance(wanted, FailbackBlocked):
            return wanted
        result = self._tasks(binding, wanted, request)
        if isinstance(result, FailbackBlocked):
            return result
        leaves, tasks = result
        tasks = tuple(task for task in tasks if task.from_cluster != cluster)
        new = binding.with_spec(clusters=_targets(binding, wanted), graceful_eviction_tasks=tasks)
        new = origin.with_return(new).with_status(scheduler_observed_affinity_name=attempt.affinity_name)
        reservations, guards = self._reservations(binding, cluster, wanted, question)
        return FailbackPlan(new, cluster, wanted[cluster], leaves, reservations, guards)

    def _question(
        self, binding: Binding, bare: ResourceBindingSpec, cluster: str
    ) -> tuple[Question, Attempt] | FailbackBlocked:
        """Return the scheduler's question, and the first affinity term that allows the cluster.

        Nothing goes back to a cordoned cluster, whatever the binding tolerates: a Drain would move it away again.
        """
        status = msgspec.structs.replace(binding.status, scheduler_observed_affinity_name="")
        explanation = schedule(bare, status, self._fleet, settings=self._settings, ledger=self._ledger).explanation
        index = self._fleet.index[cluster]
        refusals = [refusal(attempt.plan, explanation.question, index) for attempt in explanation.attempts]
        cordon = next((one for one in self._fleet.clusters[index].spec.taints if one.key == UNSCHEDULABLE_TAINT), None)
        for attempt, why in zip(explanation.attempts, refusals, strict=True):
            if why is None:
                return (explanation.question, attempt) if cordon is None else _cordoned(cluster)
        assert refusals[0] is not None, "a term that does not refuse the cluster was returned"
        if cordon is not None and spelled(cordon) in refusals[0].value:
            return _cordoned(cluster)
        return FailbackBlocked(f"the scheduler may not choose cluster {cluster}: {refusals[0].value}")

    def _divided(
        self, binding: Binding, earlier: Origin, cluster: str, question: Question, attempt: Attempt
    ) -> dict[str, int] | FailbackBlocked:
        """Return the replicas by cluster after a Divided workload got its share on the cluster back.

        Replicas that run nowhere are taken first, then those on clusters it was not on before the failover, then those
        on its earlier clusters that have more than their share. FailbackBlocked: there is nothing to bring back, or
        the cluster has no room for it.
        """
        replicas = binding.spec.replicas
        shares = _replicas_by_cluster(earlier, replicas, larger_name_first=question.larger_name_first)
        held = {target.name: target.replicas for target in binding.spec.clusters}
        planned, share = dict(held), shares[cluster]
        taken = min(share, max(0, replicas - sum(held.values())))
        for name in self._givers(binding, earlier):
            give = min(share - taken, planned[name] - shares.get(name, 0))
            if give > 0:
                planned[name], taken = planned[name] - give, taken + give
        if taken <= 0:
            return FailbackBlocked(
                f"there is nothing to bring back to cluster {cluster}: the other clusters have no more than their share"
            )
        free = int(self._ledger.free(question.asked)[self._fleet.index[cluster]])
        if attempt.plan.division in (DYNAMIC, AGGREGATED) and free < taken:
            return FailbackBlocked(f"cluster {cluster} has room for {free} of {taken} replicas")
        return {**{name: count for name, count in planned.items() if count or not held[name]}, cluster: taken}

    def _duplicated(
        self, binding: Binding, bare: ResourceBindingSpec, earlier: Origin, cluster: str, question: Question
    ) -> dict[str, int] | FailbackBlocked:
        """Return the targets with one more copy on the cluster.

        The copy is added to all others if the scheduler would keep them all. Otherwise it replaces the copy on a
        cluster where the binding was not before the failover.
        """
        replicas = binding.spec.replicas if question.workload and not question.bundled else 0
        current = {target.name: target.replicas for target in binding.spec.clusters}
        new_clusters = [name for name in self._givers(binding, earlier) if name not in earlier.clusters]
        for leaving in ("", *new_clusters):
            wanted = {**{name: count for name, count in current.items() if name != leaving}, cluster: replicas}
            if self._kept(binding, bare, wanted, leaving):
                return wanted
        return FailbackBlocked(
            f"the scheduler would not keep a copy on cluster {cluster} in addition to its other copies"
        )

    def _kept(self, binding: Binding, bare: ResourceBindingSpec, wanted: Mapping[str, int], leaving: str) -> bool:
        """Test whether the scheduler would keep the copies where they are planned, and not choose the leaving cluster
        again."""
        spec = msgspec.structs.replace(bare, clusters=_targets(binding, wanted))
        status = msgspec.structs.replace(binding.status, scheduler_observed_affinity_name="")
        outcome = schedule(spec, status, self._fleet, settings=self._settings, ledger=self._ledger).outcome
        names = {cluster.name for cluster in outcome.clusters} if isinstance(outcome, Placed) else set()
        return set(wanted) <= names and leaving not in names

    def _givers(self, binding: Binding, earlier: Origin) -> list[str]:
        """Return the targets in the order in which they give replicas back.

        Clusters where the binding was not before the failover come first. Among them, clusters that are not Ready come
        first.
        """
        ready = {cluster.metadata.name: cluster.ready == health.TRUE for cluster in self._fleet.clusters}
        names = [target.name for target in binding.spec.clusters]
        return sorted(names, key=lambda name: (name in earlier.clusters, ready.get(name, False), name))

    def _tasks(
        self, binding: Binding, wanted: Mapping[str, int], request: FailbackRequest
    ) -> tuple[tuple[str, ...], tuple[GracefulEvictionTask, ...]] | FailbackBlocked:
        """Return the clusters that give replicas, and the tasks that keep these running for now."""
        new, leaves = binding, list[str]()
        for target in binding.spec.clusters:
            rest = wanted.get(target.name)
            if rest is not None and rest >= target.replicas:
                continue
            leaves.append(target.name)
            why = request.held(target.name)
            state = preserved_state(binding, target.name, self._settings) if rest is None else PreservedState()
            why = why or missing_state_reason(state, target.name, self._settings)
            if why:
                return FailbackBlocked(why)
            new = self._with_task(new, target, rest, state, request)
        return tuple(leaves), new.spec.graceful_eviction_tasks

    def _with_task(
        self, binding: Binding, target: TargetCluster, rest: int | None, state: PreservedState, request: FailbackRequest
    ) -> Binding:
        """Return the binding with a task for what leaves a target.

        `rest`: the replicas that stay there; None: the whole copy leaves.
        """
        now, name = self._now, target.name
        producer, message = request.producer, request.message
        if rest is None:
            return with_task(
                binding,
                name,
                mode=purge_mode(binding, self._settings),
                reason=FAILED_BACK,
                producer=producer,
                message=message,
                preserved=state.labels,
                now=now,
            )
        part = target.replicas - rest
        words = {"reason": PARTLY_FAILED_BACK, "producer": producer, "message": message}
        return with_partial_task(binding, name, part, now=now, **words)

    def _reservations(
        self, binding: Binding, cluster: str, wanted: Mapping[str, int], question: Question
    ) -> tuple[tuple[CapacityReservation, ...], tuple[CapacityGuard, ...]]:
        """Reserve the capacity on the cluster. Return the reservations, with guards on the capacity they rest on."""
        count = 1 if question.bundled else wanted[cluster]
        if not question.workload or count <= 0:
            return (), ()
        places = self._fleet.places([cluster])
        self._ledger.reserve(places, np.array([count], dtype=np.int64), question.asked)
        reservations = binding_outcome.capacity_reservations(
            binding, {cluster: count}, {}, asked=question.asked, now=self._now
        )
        guards = self._ledger.capacity_guards(places, question.asked, seen=self._seen)
        return tuple(reservation.row for reservation in reservations), guards


def _cordoned(cluster: str) -> FailbackBlocked:
    return FailbackBlocked(
        f"cluster {cluster} is cordoned, as a Drain leaves it; let it be used again: "
        f"kubectl lifeboat uncordon {cluster}"
    )


def _replicas_by_cluster(earlier: Origin, replicas: int, *, larger_name_first: bool) -> dict[str, int]:
    """Return the replicas of each earlier cluster. If the total has changed, they are divided in proportion."""
    names = sorted(earlier.clusters)
    weights = np.array([earlier.clusters[name] for name in names], dtype=np.int64)
    return dict(
        zip(
            names, divide.by_static_weight(replicas, weights, larger_name_first=larger_name_first).tolist(), strict=True
        )
    )


def _targets(binding: Binding, wanted: Mapping[str, int]) -> tuple[TargetCluster, ...]:
    """Return the targets in the order of their names. A new target has the same components as the others."""
    current = {cluster.name: cluster for cluster in binding.spec.clusters}
    template = next(iter(binding.spec.clusters), TargetCluster(""))
    return tuple(
        msgspec.structs.replace(current.get(name, template), name=name, replicas=wanted[name])
        for name in sorted(wanted)
    )

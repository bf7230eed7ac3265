"""Failback: a binding back onto a cluster it left, by somebody's word and gracefully (D19, D23).

What it went to meanwhile gives the replicas back: a copy that goes altogether leaves through an eviction task like any
other, and where a part of a copy goes the task keeps that part running. So nothing is taken away before what goes back
is healthy. With purge mode Directly the old goes first, as the policy wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
import numpy as np

from controlplane.apimachinery.causes import invalid
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Ref, condition, to_seconds
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
from controlplane.kinds.binding.origin import Home
from controlplane.kinds.cluster import ACCESS_LOST, EVICTING_EFFECTS, READY, Cluster
from controlplane.kinds.failback import FailbackSpec
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.rows import Promise
from controlplane.scheduling import binding_outcome, divide
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.explain import Attempt
from controlplane.scheduling.filters import refusal
from controlplane.scheduling.placement_plan import AGGREGATED, DYNAMIC
from controlplane.scheduling.question import Question
from controlplane.scheduling.schedule import Placed, schedule
from controlplane.settings import Settings

READY_FOR = timedelta(minutes=10)
"""How long a cluster has to be Ready before anything goes back to it: one that flaps is left alone."""


class FailbackPlan(msgspec.Struct, frozen=True):
    """A binding's way back to one cluster. `leaves`: the clusters that give the replicas, whole copies or parts."""

    binding: Binding  # afterwards
    cluster: str
    replicas: int
    leaves: tuple[str, ...]
    promises: tuple[Promise, ...] = ()
    rooms: tuple[CapacityGuard, ...] = ()  # on which the promises rest


class FailbackRequest(msgspec.Struct, frozen=True):
    """What tasks say of who asked. `held`: why nothing may leave a cluster that would give replicas; "" it may."""

    producer: str
    message: str
    held: Callable[[str], str] = lambda giver: ""


class FailbackBlocked(msgspec.Struct, frozen=True):
    """It cannot go back now."""

    why: str


def unfit_reason(cluster: Cluster | None, name: str, *, seasoned: bool = True, now: datetime) -> str:
    """Return why nothing may go back to a cluster; "" where it may. `seasoned` False: however short it is Ready."""
    if cluster is None or cluster.terminating:
        return f"cluster {name} is gone"
    taint = next((one for one in cluster.spec.taints if one.effect in EVICTING_EFFECTS), None)
    if taint is not None:
        return f"cluster {name} has the taint {spelled(taint)}, which would drive it away again"
    if cluster.ready != health.TRUE:
        return f"cluster {name} is not Ready"
    lost = condition(cluster.status.conditions, ACCESS_LOST)
    if lost is not None and lost.status == health.TRUE:
        return f"access to cluster {name} is lost: {lost.message}"
    moment = fit_since(cluster)
    if seasoned and moment is not None and moment > now:
        return (
            f"cluster {name} has been Ready for less than {READY_FOR.total_seconds() / 60:.0f} minutes; "
            f"it has to stay so until {moment:%Y-%m-%dT%H:%M:%SZ}"
        )
    return ""


def fit_since(cluster: Cluster) -> datetime | None:
    """Return when a Ready cluster will have been so for long enough; None where nobody knows since when it is."""
    ready = condition(cluster.status.conditions, READY)
    since = None if ready is None else ready.last_transition_time
    return None if since is None else to_seconds(since) + READY_FOR


def refusal_causes(
    spec: FailbackSpec, binding: Binding | None, clusters: Mapping[str, Cluster], *, now: datetime
) -> Iterator[Cause]:
    """Yield what can be known to be wrong when a failback is written. `binding`: the one it names, None: there is none.

    `clusters`: the one it names, and those the binding is away from. A dry run moves nothing, so a cluster that has
    been Ready for a moment only is planned for.
    """
    seasoned = not spec.dry_run
    if spec.cluster:
        why = unfit_reason(clusters.get(spec.cluster), spec.cluster, seasoned=seasoned, now=now)
        if why:
            yield invalid("spec.cluster", spec.cluster, f"{why}; create the failback once that is over")
    if not spec.binding:
        return
    known = None if binding is None else origin.home(binding)
    if binding is None:
        yield invalid("spec.binding", spec.binding, "there is no such binding; write <namespace>/<name>")
    elif known is None:
        rule = "it is where it was before its last failover, or its placement has changed since: nothing goes back"
        yield invalid("spec.binding", spec.binding, rule)
    elif spec.cluster and spec.cluster not in known.left:
        yield invalid("spec.binding", spec.binding, f"it has not left cluster {spec.cluster}")
    elif not spec.cluster:
        found = [unfit_reason(clusters.get(name), name, seasoned=seasoned, now=now) for name in sorted(known.left)]
        if all(found):
            yield invalid("spec.binding", spec.binding, f"{'; '.join(found)}; create the failback once that is over")


def binding_ref(text: str) -> Ref:
    """Return the binding a failback names: <namespace>/<name>, or <name> of a cluster-scoped one."""
    namespace, slash, name = text.rpartition("/")
    return Ref(RESOURCE_BINDING, namespace, name) if slash else Ref(CLUSTER_RESOURCE_BINDING, "", name)


class FailbackPlanner:
    """Ways back against the clusters of one moment; what goes back takes its room before the next is asked about."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        promised: ReservedCapacity,
        settings: Settings,
        *,
        now: datetime,
    ) -> None:
        self._settings, self._now = settings, now
        self._fleet = Fleet.of(clusters, settings=settings)
        self._ledger = binding_outcome.ledger(self._fleet, promised.totals)
        self._seen = promised.seen

    def way(
        self, binding: Binding, known: Home, cluster: str, errand: FailbackRequest
    ) -> FailbackPlan | FailbackBlocked:
        """Return how a binding goes back to a cluster of its home, asking the scheduler whether it may be there."""
        spec = binding.spec
        if spec.placement is None:
            return FailbackBlocked("it has no placement: nothing says where it may run")
        if spec.scheduling_suspended:
            return FailbackBlocked("its scheduling is suspended")
        busy = [task.from_cluster for task in spec.graceful_eviction_tasks if task.from_cluster != cluster]
        if busy:
            return FailbackBlocked(f"it is still leaving cluster {', '.join(busy)}")
        bare = msgspec.structs.replace(spec, graceful_eviction_tasks=())
        found = self._asked(binding, bare, cluster)
        if isinstance(found, FailbackBlocked):
            return found
        question, attempt = found
        divided = question.workload and not question.bundled and spec.placement.divided
        wanted = (
            self._divided(binding, known, cluster, question, attempt)
            if divided
            else self._beside(binding, bare, known, cluster, question)
        )
        if isinstance(wanted, FailbackBlocked):
            return wanted
        less = self._less(binding, wanted, errand)
        if isinstance(less, FailbackBlocked):
            return less
        leaves, tasks = less
        tasks = tuple(task for task in tasks if task.from_cluster != cluster)
        new = binding.with_spec(clusters=_targets(binding, wanted), graceful_eviction_tasks=tasks)
        new = origin.returned(new, cluster).with_status(scheduler_observed_affinity_name=attempt.affinity_name)
        promises, rooms = self._promised(binding, cluster, wanted, question)
        return FailbackPlan(new, cluster, wanted[cluster], leaves, promises, rooms)

    def _asked(
        self, binding: Binding, bare: ResourceBindingSpec, cluster: str
    ) -> tuple[Question, Attempt] | FailbackBlocked:
        """Return the scheduler's question and the first affinity term under which it may choose the cluster."""
        status = msgspec.structs.replace(binding.status, scheduler_observed_affinity_name="")
        explanation = schedule(bare, status, self._fleet, settings=self._settings, promised=self._ledger).explanation
        place = self._fleet.index[cluster]
        refusals = [refusal(attempt.plan, explanation.question, place) for attempt in explanation.attempts]
        for attempt, why in zip(explanation.attempts, refusals, strict=True):
            if why is None:
                return explanation.question, attempt
        assert refusals[0] is not None, "a term that does not refuse the cluster was returned"
        return FailbackBlocked(f"the scheduler may not choose cluster {cluster}: {refusals[0].value}")

    def _divided(
        self, binding: Binding, known: Home, cluster: str, question: Question, attempt: Attempt
    ) -> dict[str, int] | FailbackBlocked:
        """Return replicas by cluster with the cluster's share back: what is nowhere yet first, then from clusters that
        are none of its home, then from those of its home that hold more than their share."""
        replicas = binding.spec.replicas
        shares = _replicas_by_cluster(known, replicas, turned=question.turned)
        held = {one.name: one.replicas for one in binding.spec.clusters}
        have, need = dict(held), shares[cluster]
        taken = min(need, max(0, replicas - sum(held.values())))
        for name in self._givers(binding, known):
            give = min(need - taken, have[name] - shares.get(name, 0))
            if give > 0:
                have[name], taken = have[name] - give, taken + give
        if taken <= 0:
            return FailbackBlocked(
                f"there is nothing to bring back to cluster {cluster}: others hold no more than their share"
            )
        room = int(self._ledger.free(question.asked)[self._fleet.index[cluster]])
        if attempt.plan.division in (DYNAMIC, AGGREGATED) and room < taken:
            return FailbackBlocked(f"cluster {cluster} has room for {room} of {taken} replicas")
        return {**{name: count for name, count in have.items() if count or not held[name]}, cluster: taken}

    def _beside(
        self, binding: Binding, bare: ResourceBindingSpec, known: Home, cluster: str, question: Question
    ) -> dict[str, int] | FailbackBlocked:
        """Return the copies with one more on the cluster: beside all there are where the scheduler would keep that,
        else in place of one that is none of its home."""
        each = binding.spec.replicas if question.workload and not question.bundled else 0
        have = {one.name: one.replicas for one in binding.spec.clusters}
        guests = [name for name in self._givers(binding, known) if name not in known.clusters]
        for leaver in ("", *guests):
            wanted = {**{name: count for name, count in have.items() if name != leaver}, cluster: each}
            if self._kept(binding, bare, wanted, leaver):
                return wanted
        return FailbackBlocked(f"the scheduler would not keep a copy on cluster {cluster} beside those there are")

    def _kept(self, binding: Binding, bare: ResourceBindingSpec, wanted: Mapping[str, int], leaver: str) -> bool:
        """Test whether the scheduler would leave copies where they are wanted, and not take the leaver back."""
        spec = msgspec.structs.replace(bare, clusters=_targets(binding, wanted))
        status = msgspec.structs.replace(binding.status, scheduler_observed_affinity_name="")
        outcome = schedule(spec, status, self._fleet, settings=self._settings, promised=self._ledger).outcome
        names = {one.name for one in outcome.clusters} if isinstance(outcome, Placed) else set()
        return set(wanted) <= names and leaver not in names

    def _givers(self, binding: Binding, known: Home) -> list[str]:
        """Return its clusters as they give replicas back: those that are none of its home first, unwell ones before
        others."""
        well = {one.metadata.name: one.ready == health.TRUE for one in self._fleet.clusters}
        names = [one.name for one in binding.spec.clusters]
        return sorted(names, key=lambda name: (name in known.clusters, well.get(name, False), name))

    def _less(
        self, binding: Binding, wanted: Mapping[str, int], errand: FailbackRequest
    ) -> tuple[tuple[str, ...], tuple[GracefulEvictionTask, ...]] | FailbackBlocked:
        """Return the clusters that give replicas, and the tasks with those that keep them running until they are not
        needed any more. A part that leaves Directly is not kept."""
        new, leaves = binding, list[str]()
        for target in binding.spec.clusters:
            rest = wanted.get(target.name)
            if rest is not None and rest >= target.replicas:
                continue
            leaves.append(target.name)
            why = errand.held(target.name)
            state = preserved_state(binding, target.name, self._settings) if rest is None else PreservedState()
            why = why or missing_state_reason(state, target.name, self._settings)
            if why:
                return FailbackBlocked(why)
            new = self._left(new, target, rest, state, errand)
        return tuple(leaves), new.spec.graceful_eviction_tasks

    def _left(
        self, binding: Binding, target: TargetCluster, rest: int | None, state: PreservedState, errand: FailbackRequest
    ) -> Binding:
        """Return the binding with a task for what leaves a target. `rest`: replicas that stay there; None: nothing."""
        mode, now, name = purge_mode(binding, self._settings), self._now, target.name
        producer, message = errand.producer, errand.message
        if rest is None:
            return with_task(
                binding,
                name,
                mode=mode,
                reason=FAILED_BACK,
                producer=producer,
                message=message,
                preserved=state.labels,
                now=now,
            )
        if mode == DIRECTLY:
            return binding
        part = target.replicas - rest
        words = {"reason": PARTLY_FAILED_BACK, "producer": producer, "message": message}
        return with_partial_task(binding, name, part, mode=mode, now=now, **words)

    def _promised(
        self, binding: Binding, cluster: str, wanted: Mapping[str, int], question: Question
    ) -> tuple[tuple[Promise, ...], tuple[CapacityGuard, ...]]:
        """Take the room on the cluster, and return it as promises that others see, with the room they rest on."""
        count = 1 if question.bundled else wanted[cluster]
        if not question.workload or count <= 0:
            return (), ()
        places = self._fleet.places([cluster])
        self._ledger.promise(places, np.array([count], dtype=np.int64), question.asked)
        made = binding_outcome.promises(binding, {cluster: count}, {}, asked=question.asked, now=self._now)
        return tuple(one.row for one in made), self._ledger.rooms(places, question.asked, seen=self._seen)


def _replicas_by_cluster(known: Home, replicas: int, *, turned: bool) -> dict[str, int]:
    """Return the replicas of each cluster of a home, where there are more or fewer now than then in proportion."""
    names = sorted(known.clusters)
    weights = np.array([known.clusters[name] for name in names], dtype=np.int64)
    return dict(zip(names, divide.by_static_weight(replicas, weights, turned=turned).tolist(), strict=True))


def _targets(binding: Binding, wanted: Mapping[str, int]) -> tuple[TargetCluster, ...]:
    """Return targets in the order of their names; a new one is made like those there are (components)."""
    known = {one.name: one for one in binding.spec.clusters}
    like = next(iter(binding.spec.clusters), TargetCluster(""))
    return tuple(
        msgspec.structs.replace(known.get(name, like), name=name, replicas=wanted[name]) for name in sorted(wanted)
    )

"""What people do in the middle of a failover, at once and against each other. Each is a function of a run, like those
of `trouble`; none knows of the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import UNJOIN_ANNOTATION
from controlplane.clusters import fence, unjoin
from controlplane.engine.decision import Decision, deleting
from controlplane.eviction import operator_orders, revert
from controlplane.insight import record
from controlplane.kinds.binding import Binding, manual_placement
from controlplane.kinds.drain import Drain, DrainSpec
from controlplane.kinds.failback import Failback, FailbackSpec
from controlplane.kinds.rows import ENDED, Eviction
from tests.simulation import edits
from tests.simulation.manifests import ANYWHERE, DIVIDED, DUPLICATED

if TYPE_CHECKING:
    from tests.simulation.crowd import Crowd

DIRECTLY = ANYWHERE.replace("purgeMode: Gracefully", "purgeMode: Directly")
IN_GROUPS = DIVIDED.replace(
    "clusterAffinity:\n      clusterNames:\n        - member1\n        - member2",
    "clusterAffinities:\n      - {affinityName: first, clusterNames: [member1, member2]}\n"
    "      - {affinityName: second, clusterNames: [member3, member4, member5]}",
)
BY_LABEL = ANYWHERE.replace("exclude:\n        - member5", "labelSelector: {matchLabels: {zone: a}}")
POLICIES = (DIVIDED, DUPLICATED, ANYWHERE, DIRECTLY, IN_GROUPS)
WIDE = 0.3  # share of policies that take a workload away and are ClusterPropagationPolicies
AT_ONCE = 0.4  # share of workloads that are made again at once

# Policies


def policy_deleted(crowd: Crowd) -> None:
    """A policy goes, and comes back later, perhaps another one."""
    name = crowd.app()
    crowd.deletes(crowd.policy(name))
    crowd.later(0.5, 20, lambda: crowd.asks_for(name))


def policy_replaced(crowd: Crowd) -> None:
    """A policy says something else altogether: how replicas are divided, where to, and how copies leave."""
    _replaced(crowd, crowd.app(), crowd.chance.choice(POLICIES))


def _replaced(crowd: Crowd, name: str, text: str) -> None:
    old = crowd.policy(name)
    if old is not None and old.metadata.deletion_timestamp is None:
        crowd.excuse(name)
        edits.put(crowd.world, old.with_spec(**msgspec.structs.asdict(crowd.admitted(text, name).spec)), old)


def preempted(crowd: Crowd) -> None:
    """Another policy takes a workload away from its own, and goes again."""
    name, text = crowd.app(), crowd.chance.choice(POLICIES)
    text = text.replace("spec:\n", "spec:\n  preemption: Always\n  priority: 7\n", 1)
    text = text.replace("name: nginx-propagation", f"name: {crowd.meta('taker').name}")
    if crowd.chance.random() < WIDE:
        text = text.replace("PropagationPolicy", "ClusterPropagationPolicy")
    taker = crowd.admitted(text, name)
    crowd.excuse(name)
    crowd.world.create(taker)
    crowd.takers.append(taker.ref)

    def gone() -> None:
        crowd.excuse(name)
        crowd.deletes(crowd.world.store.object(taker.ref))

    crowd.later(1, 25, gone)


def taint_policy_deleted(crowd: Crowd) -> None:
    """Not Ready means nothing for a while."""
    for one in crowd.world.store.list(kinds.CLUSTER_TAINT_POLICY):
        crowd.deletes(one)
    crowd.later(0.2, 15, crowd.taints)


def taint_policy_edited(crowd: Crowd) -> None:
    """Not Ready means another effect."""
    for one in crowd.world.store.list(kinds.CLUSTER_TAINT_POLICY):
        effect = crowd.chance.choice(("NoExecute", "PreferNoExecute"))
        new = one.with_spec(taints_to_add=tuple(replace(taint, effect=effect) for taint in one.spec.taints_to_add))
        edits.put(crowd.world, new, one)


# Workloads


def workload_recreated(crowd: Crowd) -> None:
    """A workload is deleted, and another of its name made at once, or after a while."""
    name = crowd.app()
    crowd.excuse(name)
    crowd.deletes(crowd.deployment(name))
    if crowd.chance.random() < AT_ONCE:
        crowd.asks_for(name)
    else:
        crowd.later(0.1, 12, lambda: crowd.asks_for(name))


def scaled_to_nothing(crowd: Crowd) -> None:
    """A workload is scaled to 0, and back."""
    name = crowd.app()
    scale(crowd, name, 0)
    crowd.later(0.5, 40, lambda: scale(crowd, name, crowd.chance.choice((1, 2, 3, 5))))


def scale(crowd: Crowd, name: str, replicas: int) -> None:
    """Ask for other replicas, where a workload is there."""
    old = crowd.deployment(name)
    if old is not None and old.metadata.deletion_timestamp is None:
        crowd.excuse(name)
        edits.put(crowd.world, old.with_content({**old.content, "spec": {**old.spec, "replicas": replicas}}), old)


# Orders


def ordered(crowd: Crowd) -> None:
    """Two people order this and that about the same evictions."""

    def give() -> None:
        rows: list[Eviction] = [one for one in crowd.world.store.all_rows(Eviction) if one.state not in ENDED]
        for row in sorted(rows, key=lambda one: one.key)[:2]:
            for verb in crowd.chance.sample(sorted(operator_orders.VERBS.values()), 2):
                old = crowd.world.store.object(Ref.parse(row.binding))
                if isinstance(old, Binding):
                    new = operator_orders.with_order(old, row, verb, reason="mine", by="ana", now=crowd.world.now)
                    edits.put(crowd.world, new, old)

    crowd.outage(14, 30)
    crowd.when(crowd.queued, give)
    crowd.later(5, 20, give)


def held_twice(crowd: Crowd) -> None:
    """Two hold the same, and one of them no longer than the other."""
    for seconds in (crowd.chance.uniform(3, 10), crowd.chance.uniform(8, 25)):
        until = crowd.world.now + timedelta(seconds=seconds)
        namespaces = crowd.chance.choice(((), ("default",)))
        crowd.world.create(edits.hold(crowd.meta("both"), expires_at=until, namespaces=namespaces))
    crowd.outage(14, 30)


def drained_and_stopped(crowd: Crowd) -> None:
    """Drains are stopped and resumed, while a window opens and ends on one of their clusters."""
    members = [crowd.victim() for _ in range(crowd.chance.choice((1, 2)))]
    drains = [
        Drain(edits.API_VERSION, "Drain", crowd.meta("drain"), DrainSpec(member, rate=8.0, reason="new disks"))
        for member in members
    ]
    crowd.world.create(*drains)

    def turned(*, stop: bool) -> None:
        for drain in drains:
            found = crowd.world.store.object(drain.ref)
            if isinstance(found, Drain):
                edits.put(crowd.world, found.with_spec(stop=stop), found)

    def opened() -> None:
        until = crowd.world.now + timedelta(seconds=crowd.chance.uniform(3, 12))
        crowd.world.create(edits.window(crowd.meta("disks"), members[0], until=until))

    crowd.later(0, 6, lambda: turned(stop=True))
    crowd.later(0, 6, opened)
    crowd.later(6, 12, lambda: turned(stop=False))


def failed_back_meanwhile(crowd: Crowd) -> None:
    """Whatever has left a cluster shall go back there, whichever user drains it."""
    spec = FailbackSpec(crowd.victim(long=True), rate=8.0, at_once=10)
    crowd.world.create(Failback(edits.API_VERSION, "Failback", crowd.meta("home"), spec))


def reverted(crowd: Crowd) -> None:
    """A user takes back what is just happening, and what it is followed by."""
    for least, most in ((0, 20), (5, 30)):
        crowd.later(least, most, lambda: _revert(crowd))


def _revert(crowd: Crowd) -> None:
    world = crowd.world
    for old in world.store.list(kinds.RESOURCE_BINDING):
        before = record.binding_before_failover([one for one in world.store.log if one.ref == old.ref])
        if before is None or old.metadata.deletion_timestamp is not None:
            continue
        found = {target.name: crowd.cluster(target.name) for target in before.spec.clusters}
        clusters = {name: one for name, one in found.items() if one.metadata.uid}
        if not list(revert.revert_obstacles(old, before, clusters, world.settings)):
            crowd.goes_first(old)
            edits.put(world, revert.reverted_binding(old, before, world.settings, by="ana", now=world.now), old)


def placed_by_hand(crowd: Crowd) -> None:
    """A user puts a copy elsewhere, or takes the tasks off."""

    def write() -> None:
        found: list[Binding] = [one for one in crowd.world.store.list(kinds.RESOURCE_BINDING) if one.spec.clusters]
        if not found:
            return
        old = crowd.chance.choice(found)
        first, *rest = old.spec.clusters
        free = [name for name in sorted(crowd.world.members) if old.spec.target(name) is None]
        new = old.with_spec(graceful_eviction_tasks=())
        if new is old and free:
            new = old.with_spec(clusters=(replace(first, name=crowd.chance.choice(free)), *rest))
        crowd.excuse(old.spec.resource.name)
        edits.put(crowd.world, manual_placement.with_mark(new, old), old)

    crowd.later(0, 20, write)


# Clusters


def fenced(crowd: Crowd) -> None:
    """A user says that a cluster out of reach is down."""

    def say() -> None:
        for one in crowd.world.store.list(kinds.CLUSTER):
            try:
                word = fence.FenceRequest("I pulled the plug", 600)
                edits.put(crowd.world, fence.fenced(one, word, by="ana", now=crowd.world.now), one)
            except Invalid:
                continue  # it answers

    crowd.outage(14, 30)
    crowd.later(5, 20, say)


def unjoined(crowd: Crowd) -> None:
    """A cluster is deleted in the middle of its evictions, by force or not, and joined again under its name."""
    member, wish = crowd.victim(), crowd.chance.choice(("", "keep", "delete"))

    def leave() -> None:
        store, live = crowd.world.store, crowd.cluster(member)
        if not live.metadata.uid or live.terminating or (not wish and unjoin.placed_on(store, member)):
            return  # refused
        crowd.leaves(member, kept=wish == "keep")
        _excuse_all(crowd)
        edits.put(crowd.world, live.with_meta(annotations={**live.metadata.annotations, UNJOIN_ANNOTATION: wish}), live)
        store.apply([(None, Decision(changes=(deleting(crowd.cluster(member), now=store.now()),)))], by=edits.PERSON)

    crowd.later(0, 15, leave)
    crowd.later(16, 30, lambda: crowd.joins(member))


def relabelled(crowd: Crowd) -> None:
    """A cluster loses the label a policy chooses it by, and has it again."""
    member = crowd.victim()
    for name in crowd.world.members:
        label(crowd, name, "a")
    _replaced(crowd, crowd.app(), BY_LABEL)
    crowd.later(0, 15, lambda: label(crowd, member, "b"))
    crowd.later(15, 30, lambda: label(crowd, member, "a"))


def label(crowd: Crowd, member: str, zone: str) -> None:
    """Say in which zone a cluster is, where it is there."""
    old = crowd.cluster(member)
    if old.metadata.uid:
        _excuse_all(crowd)
        edits.put(crowd.world, old.with_meta(labels={**old.metadata.labels, "zone": zone}), old)


def _excuse_all(crowd: Crowd) -> None:
    for name in crowd.policies:
        crowd.excuse(name)


ACTS: dict[str, Callable[[Crowd], None]] = {
    one.__name__: one
    for one in (
        policy_deleted,
        policy_replaced,
        preempted,
        taint_policy_deleted,
        taint_policy_edited,
        workload_recreated,
        scaled_to_nothing,
        ordered,
        held_twice,
        drained_and_stopped,
        failed_back_meanwhile,
        reverted,
        placed_by_hand,
        fenced,
        unjoined,
        relabelled,
    )
}

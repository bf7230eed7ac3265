"""What is asked for workloads besides a place, and goes wrong or is taken back in the middle of a failover. Each is a
function of a run, like those of `people`; none knows of the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from controlplane import kinds
from controlplane.estimate.quota import counted_replicas
from controlplane.kinds.cluster import NO_EXECUTE
from controlplane.kinds.policy import SuspendClusters, Suspension
from tests.simulation import edits
from tests.simulation.manifests import NGINX as PLAIN
from tests.simulation.people import DIRECTLY

if TYPE_CHECKING:
    from tests.simulation.throng import Throng

NOT_READY = "cluster.karmada.io/not-ready"
PODS = 1000  # for which a member has room, if it has not got little
NGINX = PLAIN.replace(
    "        name: nginx\n",
    "        name: nginx\n        resources: {requests: {cpu: 1}}\n"
    "        envFrom: [{configMapRef: {name: nginx-needed}}]\n",
)
NEEDED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: nginx-needed}\ndata: {colour: blue}\n"
_HEAD = DIRECTLY[: DIRECTLY.index("  placement:")]
ALONE = f"""{_HEAD}  placement:
    spreadConstraints: [{{spreadByField: cluster, minGroups: 1, maxGroups: 1}}]
"""
HALVES = f"""{_HEAD}  placement:
    clusterAffinity: {{clusterNames: [member1, member2, member3]}}
    replicaScheduling:
      replicaDivisionPreference: Weighted
      replicaSchedulingType: Divided
      weightPreference:
        staticWeightList:
          - {{targetCluster: {{clusterNames: [member1]}}, weight: 1}}
          - {{targetCluster: {{clusterNames: [member2]}}, weight: 1}}
          - {{targetCluster: {{clusterNames: [member3]}}, weight: 1}}
"""
ONE = ALONE.replace("purgeMode: Directly", "purgeMode: Gracefully")
AFTER = '  annotations: {failover.lifeboat.io/directly-unreachable: "After=5"}\n'
SOON = ALONE.replace("propagation\n", f"propagation\n{AFTER}", 1)
WITH_NEEDS = "spec:\n  propagateDeps: true\n"
SICK = ONE.replace("spec:\n", WITH_NEEDS).replace(
    "  failover:\n", "  failover:\n    application: {decisionConditions: {tolerationSeconds: 4}, purgeMode: %s}\n"
)
SICK_ONES = tuple(SICK % mode for mode in ("Gracefully", "Directly"))
NEEDY = tuple(policy.replace("spec:\n", WITH_NEEDS) for policy in (ONE, HALVES))
POLICIES = (ALONE, HALVES, ONE, SOON, *NEEDY, *SICK_ONES)

OVERRIDE = """
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: %s}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: nginx}]
  overrideRules:
  - targetCluster: {clusterNames: [%s]}
    overriders: {plaintext: [{path: %s, operator: replace, value: 600}]}
"""
WRONG, RIGHT = "/spec/strategy/missing/seconds", "/spec/progressDeadlineSeconds"
QUOTA = """
apiVersion: policy.karmada.io/v1alpha1
kind: FederatedResourceQuota
metadata: {name: %s}
spec:
  overall: {cpu: "%d"}
"""
AGAIN = """
apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: %s}
spec:
  workloads: [{apiVersion: apps/v1, kind: Deployment, namespace: default, name: nginx}]
"""


def overridden(throng: Throng) -> None:
    """An override policy cannot be applied for some clusters, and is corrected or deleted later.

    A cluster that runs the workload, which mostly leaves Directly, may be emptied or lost meanwhile."""
    bold = [name for name in throng.policies if "Directly" in throng.policies[name]]
    name, members = throng.chance.choice((throng.app(), *bold)), sorted(throng.world.members)
    homes = [one for one in members if ("apps/v1", "Deployment", "default", name) in throng.world.members[one].objects]
    some = throng.chance.sample(members, throng.chance.choice((1, 2, 4)))
    where = throng.chance.choice((some, [one for one in members if one not in homes]))

    def text(path: str) -> str:
        return OVERRIDE % (f"of-nginx-{number}", ", ".join(where), path)

    number = throng.world.store.version
    path = throng.chance.choice((WRONG, WRONG, RIGHT))
    ref = throng.makes(throng.admitted(text(path), name))
    for member in where if path == WRONG else ():
        throng.prevented.setdefault((name, member), throng.world.now)

    def corrected() -> None:
        for member in where:
            throng.prevented.pop((name, member), None)
        old = throng.world.store.object(ref)
        if old is not None and throng.chance.random() < 0.5:
            throng.deletes(old)
        elif old is not None:
            new = old.with_spec(override_rules=throng.admitted(text(RIGHT), name).spec.override_rules)
            if new is not old:
                edits.put(throng.world, new, old)

    throng.later(15, 50, corrected)
    if throng.chance.random() < 0.5:
        throng.outage(14, 30)
    elif homes:
        _emptied(throng, throng.chance.choice(homes))


def _emptied(throng: Throng, member: str) -> None:
    """A person drives everything off a cluster, for a while."""
    throng.later(11, 20, lambda: edits.taint(throng.world, member, NO_EXECUTE))
    throng.later(25, 45, lambda: edits.untaint(throng.world, member))


def suspended(throng: Throng) -> None:
    """Nothing is sent to some clusters, or to any, for a while."""
    name = throng.app()
    where = tuple(throng.chance.sample(sorted(throng.world.members), throng.chance.choice((1, 2, 4))))
    of_some = Suspension(dispatching_on_clusters=SuspendClusters(where))
    throng.changes(name, suspension=throng.chance.choice((Suspension(dispatching=True), of_some)))
    throng.later(5, 45, lambda: throng.changes(name, suspension=None))
    throng.outage(14, 30)


def limited(throng: Throng) -> None:
    """A quota allows little, is changed, and goes."""
    held = sum(counted_replicas(one) for one in throng.world.store.list(kinds.RESOURCE_BINDING))
    limit = throng.chance.choice((4, 8, 10, 13))
    ref = throng.makes(throng.admitted(QUOTA % (f"team-{throng.world.store.version}", limit)))
    throng.limits[ref] = max(limit, held)

    def gone() -> None:
        throng.limits.pop(ref, None)
        throng.deletes(throng.world.store.object(ref))

    throng.later(10, 50, gone)
    if throng.chance.random() < 0.5:
        throng.outage(14, 30)


def scaled_up(throng: Throng) -> None:
    """A workload is scaled up and down, twice."""
    name = throng.app()
    for least, most in ((0, 10), (5, 25), (20, 40)):
        throng.later(least, most, lambda: _scale(throng, name, throng.chance.choice((1, 2, 4, 6))))


def _scale(throng: Throng, name: str, replicas: int) -> None:
    old = throng.deployment(name)
    if old is not None and old.metadata.deletion_timestamp is None:
        throng.excuse(name)
        edits.put(throng.world, old.with_content({**old.content, "spec": {**old.spec, "replicas": replicas}}), old)


def kept(throng: Throng) -> None:
    """Copies shall stay when their workload is deleted; it may be deleted, and made again."""
    name = throng.app()
    throng.changes(name, preserve_resources_on_deletion=True)
    throng.later(5, 30, lambda: throng.changes(name, preserve_resources_on_deletion=None))
    throng.outage(14, 30)


def needing(throng: Throng) -> None:
    """What a workload needs comes along, or no longer."""
    name = throng.app()
    policy = throng.policy(name)
    if policy is None or (policy.spec.failover is not None and policy.spec.failover.application is not None):
        return
    throng.excuse(name)
    throng.changes(name, propagate_deps=not policy.spec.propagate_deps)
    throng.outage(14, 30)


def rebalanced(throng: Throng) -> None:
    """A user lets clusters be chosen again."""

    def ask() -> None:
        name = throng.app()
        throng.excuse(name)
        throng.makes(throng.admitted(AGAIN % f"of-nginx-{throng.world.store.version}", name))

    throng.later(0, 25, ask)
    throng.outage(14, 30)


def sick(throng: Throng) -> None:
    """The copy of a workload on some member is unhealthy, and well again later."""
    name = throng.app()
    place = ("apps/v1", "Deployment", "default", name)
    holding = [one for one in throng.world.members.values() if place in one.objects]
    if not holding:
        return
    member = throng.chance.choice(holding)
    held = member.objects[place]
    throng.world.note(f"{name} is unhealthy on {member.name}")
    held.since, held.before = throng.world.now + timedelta(days=1), 0
    throng.world.fault(member.name, member.fault)  # the watch reports it
    throng.later(3, 40, lambda: well(throng, name))


def well(throng: Throng, name: str) -> None:
    """All copies of a workload are well again."""
    for member in throng.world.members.values():
        held = member.objects.get(("apps/v1", "Deployment", "default", name))
        if held is not None and held.since > throng.world.now + timedelta(hours=1):
            throng.world.note(f"{name} is well again on {member.name}")
            held.since = throng.world.now - timedelta(days=1)
            throng.world.fault(member.name, member.fault)


def away(throng: Throng) -> None:
    """The control plane itself is away for long, and clusters fail and return meanwhile."""
    throng.outage(14, 45)
    throng.later(2, 14, lambda: throng.world.stall(throng.chance.uniform(8, 30)))


def waived(throng: Throng) -> None:
    """A person takes off a taint that a policy has put on, and the cluster is lost again soon after it is back."""
    member = throng.victim()

    def tainted() -> bool:
        return any(one.key == NOT_READY and one.effect == "NoExecute" for one in throng.cluster(member).spec.taints)

    def waive() -> None:
        throng.fires("waived")
        edits.untaint(throng.world, member, NOT_READY)
        throng.later(2, 10, lambda: throng.mends(member))
        throng.later(12, 16, lambda: throng.breaks(member, seconds=throng.chance.uniform(6, 15)))

    throng.breaks(member, seconds=40)
    throng.when(tainted, waive)


def crowded(throng: Throng) -> None:
    """Members have little room for a while, and clusters are lost."""
    for member in throng.world.members.values():
        member.pods = throng.chance.choice((2, 4, 6))

    def room() -> None:
        for member in throng.world.members.values():
            member.pods = PODS

    throng.later(15, 55, room)
    in_turn(throng)


def in_turn(throng: Throng) -> None:
    """Two clusters are lost one after the other, and return in any order."""
    first = throng.victim()

    def second() -> None:
        throng.breaks(throng.victim(), seconds=throng.chance.uniform(8, 25))
        throng.fires("in_turn")

    throng.breaks(first, seconds=throng.chance.uniform(14, 35))
    throng.when(lambda: throng.evicted(first), second)


WISHES: dict[str, Callable[[Throng], None]] = {
    one.__name__: one
    for one in (
        overridden,
        suspended,
        limited,
        scaled_up,
        kept,
        needing,
        rebalanced,
        sick,
        away,
        waived,
        crowded,
        in_turn,
    )
}

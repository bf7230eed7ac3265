"""Histories of one binding that fails over several times: outages, taints, Drains and reverts in any order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor, Change
from controlplane.eviction import revert
from controlplane.insight import record
from controlplane.kinds.failover_record import FailoverRecord
from tests.simulation.outages import serving, taint, wait, wait_until_not_ready
from tests.simulation.stories import NGINX_BINDING, apply, binding, placed
from tests.simulation.world import Simulation

MEMBERS = ("member1", "member2", "member3")
DRAIN = """
apiVersion: failover.lifeboat.io/v1alpha1
kind: Drain
metadata:
  name: drain-%s
spec:
  cluster: %s
  rate: 1
  reason: new discs
"""
STEPS = (
    "outage",
    "short outage",
    "not ready, then gone",
    "taint",
    "drain",
    "drain in an outage",
    "revert",
)
PAUSES = (3, 40)  # seconds: shorter and longer than a failover takes

Happening = tuple[str, int]
"""What happens, and the seconds of rest after it."""


def history(happenings: Sequence[Happening], *, seed: int = 0) -> Simulation:
    """Return a world in which these things happened one after the other to the clusters that nginx was on."""
    world, numbers = serving(*MEMBERS, seed=seed, replicas=3), count()
    for step, pause in happenings:
        cluster = next(iter(sorted(placed(world))), MEMBERS[0])
        _happen(world, step, cluster, pause, number=next(numbers))
    return world


def _happen(world: Simulation, step: str, cluster: str, pause: int, *, number: int) -> None:
    if step == "taint":
        taint(world, cluster)
        wait(world, pause)
        taint(world, cluster, on=False)
    elif step.startswith("drain"):
        if step.endswith("outage"):
            world.fault(cluster, "down")
            wait_until_not_ready(world, cluster)
        apply(world, DRAIN % (number, cluster))
        wait(world, pause)
        world.fault(cluster, "none")
        place = Ref(kinds.CLUSTER, "", cluster)
        old = world.store.objects[place]
        assert not world.store.put(old.with_spec(taints=()), old).lost  # the cordon of the Drain
    elif step == "revert":
        reverted(world)
    else:
        world.fault(cluster, "notready" if step.startswith("not ready") else "down")
        wait(world, 4 if step == "short outage" else 6)
        if step.startswith("not ready"):
            world.fault(cluster, "down")
        wait(world, 2 if step == "short outage" else 40)
        world.fault(cluster, "none")
    wait(world, pause)


def reverted(world: Simulation) -> None:
    """Take the latest failover back as the API does, if there is one and nothing is in the way."""
    old = binding(world)
    before = record.binding_before_failover([one for one in world.store.log if one.ref == old.ref])
    if before is None:
        return
    clusters = {one.name: world.store.objects[Ref(kinds.CLUSTER, "", one.name)] for one in before.spec.clusters}
    if not list(revert.revert_obstacles(old, before, clusters, world.settings)):
        new = revert.reverted_binding(old, before, world.settings, by="ana", now=world.now)
        (outcome,) = world.store.apply([(None, Decision(changes=(Put(new, old),), reason="Revert"))], by=Actor("ana"))
        assert not outcome.lost


def records(log: Sequence[Change], ref: Ref = NGINX_BINDING) -> tuple[FailoverRecord, ...]:
    """Return the failovers of a binding, read from the whole log."""
    own = record.failovers(record.decode_changes(change for change in log if change.ref == ref))
    refs = record.related_refs(own)
    return record.records(own, record.decode_changes(change for change in log if change.ref in refs))

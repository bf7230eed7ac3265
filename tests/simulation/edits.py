"""What people do to a simulated fleet, by hand: objects made, edited and deleted, taints put on and taken off."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.apimachinery.names import UNSCHEDULABLE_TAINT
from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.eviction_hold import EvictionHold
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.maintenance_window import MaintenanceWindow
from tests.builders import steering
from tests.simulation.world import Simulation

API_VERSION = "failover.lifeboat.io/v1alpha1"
PERSONS_TAINT = "gone"
PERSON = Actor("test")


def named(world: Simulation, name: str) -> ObjectMeta:
    """Return the metadata of a new object, with a name that none had before."""
    unique = f"{name}-{world.store.version}"
    return ObjectMeta(name=unique, uid=f"uid-{unique}", generation=1, creation_timestamp=world.now)


def hold(metadata: ObjectMeta, **spec: Any) -> EvictionHold:
    """Return a hold with this metadata."""
    return replace(steering.hold(**spec), metadata=metadata)


def window(metadata: ObjectMeta, member: str, *, until: datetime) -> MaintenanceWindow:
    """Return a maintenance window of a member with this metadata, which has begun."""
    found = steering.window(member).with_spec(until=until)
    return replace(found, metadata=metadata)


def put(world: Simulation, new: Object, old: Object) -> None:
    """Store an edit."""
    assert not world.store.put(new, old).lost


def delete(world: Simulation, obj: Object) -> None:
    """Delete an object."""
    world.store.apply([(None, Decision(changes=(Delete(obj),)))], by=PERSON)


def taint(world: Simulation, member: str, effect: str) -> None:
    """Put a person's taint on a cluster, instead of the one there is."""
    untaint(world, member)
    if (old := _cluster(world, member)) is None:
        return
    new = Taint(PERSONS_TAINT, effect, time_added=world.now.replace(microsecond=0))
    put(world, old.with_spec(taints=(*old.spec.taints, new)), old)


def untaint(world: Simulation, member: str, key: str = PERSONS_TAINT) -> None:
    """Take a person's taint off a cluster, where there is one."""
    if (old := _cluster(world, member)) is None:
        return
    rest = tuple(one for one in old.spec.taints if one.key != key)
    if rest != old.spec.taints:
        put(world, old.with_spec(taints=rest), old)


def uncordon(world: Simulation, member: str) -> None:
    """Let a cluster be chosen again after a Drain."""
    untaint(world, member, UNSCHEDULABLE_TAINT)


def unused(world: Simulation) -> None:
    """Delete what people have asked for and is of no use any more: holds, windows, drains, failbacks."""
    for kind in (kinds.EVICTION_HOLD, kinds.MAINTENANCE_WINDOW, DRAIN, FAILBACK):
        for one in world.store.list(kind):
            delete(world, one)


def _cluster(world: Simulation, member: str) -> Cluster | None:
    found = world.store.object(Ref(kinds.CLUSTER, "", member))
    return found if isinstance(found, Cluster) else None

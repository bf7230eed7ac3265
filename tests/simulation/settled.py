"""What must hold at the end of every run, when all trouble is over and nothing happens any more: nothing is left of
what has been, and everything says of itself that it is well."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.apimachinery.names import MANAGED_LABEL, execution_namespace
from controlplane.eviction import leftovers
from controlplane.kinds.binding import FULLY_APPLIED, SCHEDULED, Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.rows import ENDED, Eviction, UnhealthyCopies
from controlplane.kinds.work import APPLIED, Work
from controlplane.propagation import bindings, works
from tests.simulation.member import Member, place_of
from tests.simulation.world import Simulation


def unsettled(world: Simulation, uncleaned: Collection[str]) -> str:
    """Return what is not as it has to be in the end; "": everything is. `uncleaned`: members that may hold more."""
    return next(_faults(world, uncleaned), "")


def _faults(world: Simulation, uncleaned: Collection[str]) -> Iterator[str]:
    for ref, obj in world.store.objects.items():
        if obj.metadata.deletion_timestamp is not None:
            yield f"{ref} is still being deleted"
    for cluster in world.store.list(kinds.CLUSTER):
        yield from _of_cluster(cluster)
    for kind in kinds.BINDINGS:
        for binding in world.store.list(kind):
            yield from _of_binding(world, binding)
    for work in world.store.list(kinds.WORK):
        yield from _of_work(world, work)
    for member in world.members.values():
        yield from _of_member(world, member, cleaned=member.name not in uncleaned)
    yield from _of_rows(world)


def _of_cluster(cluster: Cluster) -> Iterator[str]:
    if cluster.ready != "True" or cluster.spec.taints:
        yield f"{cluster.ref} is Ready={cluster.ready} with {cluster.spec.taints}"


def _of_binding(world: Simulation, binding: Binding) -> Iterator[str]:
    if binding.spec.placement is not None:
        said = condition(binding.status.conditions, SCHEDULED)
        if said is None or said.status != "True":
            yield f"{binding.ref} says {said}"
        if binding.status.scheduler_observed_generation != binding.metadata.generation:
            yield f"the scheduler has not seen {binding.ref} as it is"
    wanted = {target.name: target.replicas for target in works.targets(binding)}
    items = {item.cluster_name: item for item in binding.status.aggregated_status}
    if set(items) != set(wanted):
        yield f"{binding.ref} has the status of {sorted(items)}, and is on {sorted(wanted)}"
    for item in items.values():
        if not item.applied or item.out_of_reach_since is not None or item.health not in ("Healthy", "Unknown"):
            yield f"{binding.ref} says {item}"
    applied = condition(binding.status.conditions, FULLY_APPLIED)
    if wanted and (applied is None or applied.status != "True"):
        yield f"{binding.ref} says {applied}"
    template: Any = world.store.object(bindings.template_ref(binding))
    if template is not None and template.kind == "Deployment":
        counts = wanted.values()
        ready = (template.status or {}).get("readyReplicas", 0)
        if ready != sum(counts):
            yield f"{template.ref} says that {ready} replicas are ready, placed {wanted}"


def _of_work(world: Simulation, work: Work) -> Iterator[str]:
    if work.made_for is None or world.store.object(work.made_for) is None:
        yield f"{work.ref} was made for {work.made_for}, which is not there"
    if leftovers.is_leftover(work):
        yield f"{work.ref} is a leftover"
    if work.spec.suspend_dispatching:
        yield f"{work.ref} is suspended"
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.status != "True" or applied.observed_generation not in (0, work.metadata.generation):
        yield f"{work.ref} of generation {work.metadata.generation} says {applied}"


def _of_member(world: Simulation, member: Member, *, cleaned: bool) -> Iterator[str]:
    found = world.store.list(kinds.WORK, namespace=execution_namespace(member.name))
    asked = {place_of(work.manifest): work for work in found if work.manifest}
    for place, held in member.objects.items():
        ours = (held.manifest["metadata"].get("labels") or {}).get(MANAGED_LABEL)
        if cleaned and ours and place not in asked and place not in member.released:
            yield f"{member.name} holds {place}, which nothing asks for"
    for place, work in asked.items():
        if place not in member.objects:
            yield f"{member.name} does not hold {place}"
        elif member.objects[place].manifest.get("spec") != works.sent(work).get("spec"):
            yield f"{member.name} holds another {place} than is asked for"


def _of_rows(world: Simulation) -> Iterator[str]:
    for row in world.store.all_rows(Eviction):
        if row.state not in ENDED:
            yield f"the eviction {row.key} is {row.state}"
    for unhealthy in world.store.all_rows(UnhealthyCopies):
        if world.store.object(Ref.parse(unhealthy.key)) is None:
            yield f"the unhealthy copies of {unhealthy.key} are remembered"
    now = world.now
    for name, due in world.store.due.items():
        for ref, row in due.items():
            if row.due_at <= now:
                yield f"{name} has not looked at {ref}, which is due since {row.due_at}"

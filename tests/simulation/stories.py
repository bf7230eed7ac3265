"""Stories: a simulation with members joined and workloads placed, ready for something to go wrong."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as replaced
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import GATES, Settings
from controlplane.wire import definition
from tests.simulation.agents import Agent
from tests.simulation.audit import Audit
from tests.simulation.invariants import Watchman
from tests.simulation.manifests import NOT_READY_MEANS_LEAVE, admitted, cluster
from tests.simulation.member import UP, Member
from tests.simulation.world import Simulation

JOINED = 10  # seconds
SERVED = timedelta(hours=1)
NGINX_BINDING = Ref(kinds.RESOURCE_BINDING, "default", "nginx-deployment")

# Seconds instead of minutes, nearly as `make run` has them; what is decided is the same.
QUICK = replace(
    Settings(),
    feature_gates={**GATES, "Failover": True},
    cluster_status_update_frequency=5,
    cluster_success_threshold=3,
    cluster_failure_threshold=3,
)
OFTEN = replace(QUICK, cluster_status_update_frequency=2)  # for stories in which one probe decides
EACH_SECOND = replace(QUICK, cluster_status_update_frequency=1)  # for random trouble and for times in reports


def joined(
    *names: str,
    seed: int = 0,
    settings: Settings = QUICK,
    kill_rate: float = 0.0,
    pods: int = 1000,
    faults: Mapping[str, str] | None = None,
    pull: Collection[str] = (),
) -> Simulation:
    """Return a simulation whose members are Ready and which evicts from clusters that are not.

    `pods`: how many each member has room for; `faults`: of which members have which from the beginning; `pull`: which
    have an agent.
    """
    members = [Member(name, pods=pods, fault=(faults or {}).get(name, UP)) for name in names]
    simulation = with_members(
        *members, manifests=[NOT_READY_MEANS_LEAVE], seed=seed, settings=settings, kill_rate=kill_rate, pull=pull
    )
    Watchman().attach(simulation)
    simulation.checks.append(Audit())
    simulation.run(JOINED)
    return simulation


def with_members(
    *members: Member,
    manifests: Sequence[str] = (),
    settings: Settings = QUICK,
    pull: Collection[str] = (),
    **how: Any,
) -> Simulation:
    """Return a simulation with these members, whose Clusters were created just now. `how`: arguments of Simulation."""
    simulation = Simulation(settings=settings, **how)
    simulation.members = {member.name: member for member in members}
    documents = [*manifests, *(cluster(member.name, pull=member.name in pull) for member in members)]
    simulation.create(*(admitted(one, settings, now=simulation.now) for one in documents))
    simulation.agents = {name: Agent(simulation, name) for name in pull}
    return simulation


def in_service(*names: str, settings: Settings = QUICK, pull: Collection[str] = ()) -> Simulation:
    """Return a simulation whose members have been Ready for an hour."""
    simulation = joined(*names, settings=settings, pull=pull)
    ready_for_an_hour(simulation)
    simulation.run(JOINED)
    return simulation


def ready_for_an_hour(simulation: Simulation) -> None:
    """Let all conditions of all clusters be as they are since an hour ago."""
    for cluster_ in simulation.store.list(kinds.CLUSTER):
        since = simulation.now - SERVED
        conditions = tuple(replace(one, last_transition_time=since) for one in cluster_.status.conditions)
        assert not simulation.store.put(cluster_.with_status(conditions=conditions), cluster_).lost


def again(before: Simulation, *, seed: int) -> Simulation:
    """Return another run from where one has come to, with a seed of its own; members hold nothing yet."""
    assert not any(one.objects for one in before.members.values()), "what members hold would be shared by all runs"
    simulation = Simulation(seed=seed, settings=before.settings)
    members = before.members.values()
    simulation.members = {one.name: replaced(one, objects={}, created=[], released=set()) for one in members}
    simulation.now = before.now
    simulation.buckets = dict(before.buckets)
    simulation.store.put_back(before.store.keep())
    simulation.store.log = list(before.store.log)
    simulation.agents = {name: Agent(simulation, name, one.cache.kept) for name, one in before.agents.items()}
    Watchman().attach(simulation)
    simulation.checks.append(Audit())
    return simulation


def apply(simulation: Simulation, *manifests: str | dict[str, Any]) -> None:
    """Create objects as kubectl would; what a CustomResourceDefinition brings is known at once."""
    for text in manifests:
        simulation.create(admitted(text, simulation.settings, now=simulation.now))
        KINDS.set_custom(kinds_of(simulation.store.list(definition.KEY)))


def binding(simulation: Simulation, ref: Ref = NGINX_BINDING) -> Binding:
    """Return the binding as it is now. Raises KeyError where there is none."""
    found: Binding = simulation.store.get([ref])[ref]
    return found


def placed(simulation: Simulation, ref: Ref = NGINX_BINDING) -> dict[str, int]:
    """Return the targets of a binding and their replicas."""
    return {target.name: target.replicas for target in binding(simulation, ref).spec.clusters}


def copies_on(simulation: Simulation, cluster: str) -> int:
    """Return how many bindings have a copy on a cluster."""
    found = simulation.store.list(kinds.RESOURCE_BINDING)
    return sum(one.spec.target(cluster) is not None for one in found)


def running(simulation: Simulation, name: str = "nginx") -> dict[str, int]:
    """Return how many replicas of a Deployment are ready on each member that holds it."""
    place = ("apps/v1", "Deployment", "default", name)
    return {
        member.name: member.ready_replicas(place, now=simulation.now)
        for member in simulation.members.values()
        if place in member.objects
    }

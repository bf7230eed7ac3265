"""Trouble with people in the middle of it: policies, workloads and clusters come and go, orders meet other orders.

    python -m tests.simulation.crowd 4711

runs one seed again and prints its timeline. Beside what `chaos` asserts after every step (but the windows of taints,
whose policy comes and goes here), everything that was asked for has to be there in the end, and nothing else.
"""

from __future__ import annotations

import sys
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta, Ref, condition
from controlplane.engine import lifecycle
from controlplane.engine.decision import Decision
from controlplane.eviction.purge import purge_mode
from controlplane.kinds.binding import Binding
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.policy import DIRECTLY
from tests.builders import objects
from tests.simulation import edits, people, trouble
from tests.simulation.chaos import APPS, BEGINS, Chaos, ran, replay
from tests.simulation.manifests import NGINX, NOT_READY_MEANS_LEAVE, admitted, cluster
from tests.simulation.member import UP
from tests.simulation.taint_watch import TaintWatch
from tests.simulation.timeline import reported
from tests.simulation.world import Simulation

BY_CHANCE, AMID = 3, 4  # how many things people do beside the first, and how much trouble there is meanwhile
WITHIN = 30.0  # seconds
TROUBLE = tuple(name for name in trouble.FAULTS if name not in ("commits_lost", "policy_edited", "gate_closed"))
PREEMPTION = {"PropagationPolicyPreemption": True}
STANDS_IN_THE_WAY = ("EvictionStuck", "DirectlyWaiting", "EvictionPending")


class Crowd(Chaos):
    """One seeded run. `takers`: policies that took a workload from its own; `going`: clusters that are unjoined."""

    def __init__(self, seed: int) -> None:
        self.takers: list[Ref] = []
        self.going: set[str] = set()
        self.policies: dict[str, str] = {}
        self.made = 0
        super().__init__(seed)
        self.world.checks[:] = [self._bold, *(one for one in self.world.checks if not isinstance(one, TaintWatch))]
        gates = {**self.world.settings.feature_gates, **PREEMPTION}
        self.world.settings = replace(self.world.settings, feature_gates=gates)

    def _planned(self) -> list[tuple[float, str]]:
        acts = list(people.ACTS)
        chosen = [acts[self.seed % len(acts)], *self.chance.choices(acts, k=BY_CHANCE)]
        chosen += self.chance.choices(TROUBLE, k=AMID)
        return sorted((BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen)

    def _apply(self, name: str, policy: str) -> None:
        self.policies[name] = self.chance.choice(people.POLICIES)
        super()._apply(name, self.policies[name])

    def happens(self, fault: str) -> None:
        self.world.note(f"ordered: {fault}")
        {**trouble.FAULTS, **people.ACTS}[fault](self)

    def _bold(self, world: Simulation) -> None:
        """A Failback moves whole copies Directly, and its task may end before the new copy runs."""
        for one in world.store.list(kinds.RESOURCE_BINDING) if world.store.list(FAILBACK) else ():
            self.goes_first(one)

    def goes_first(self, binding: Binding) -> None:
        """With purge mode Directly copies go first, as was asked."""
        if purge_mode(binding, self.world.settings) == DIRECTLY:
            self.excuse(binding.spec.resource.name)

    # What people work with

    def app(self) -> str:
        """Return a workload."""
        return self.chance.choice(APPS)

    def later(self, least: float, most: float, action: Any) -> None:
        """Do something after some seconds."""
        self.world.after(self.chance.uniform(least, most), action)

    def cluster(self, member: str) -> Any:
        return self.world.store.object(Ref(kinds.CLUSTER, "", member)) or objects.cluster(member, ready="").with_meta(
            uid=""
        )

    def deployment(self, name: str) -> Any:
        """Return a workload's Deployment, None where there is none."""
        return self.world.store.object(Ref("apps/Deployment", "default", name))

    def policy(self, name: str) -> Any:
        """Return a workload's own policy, None where there is none."""
        return self.world.store.object(Ref(kinds.PROPAGATION_POLICY, "default", f"{name}-propagation"))

    def meta(self, name: str) -> ObjectMeta:
        """Return the metadata of a new object, with a name that none had before."""
        self.made += 1
        return replace(edits.named(self.world, f"{name}-{self.made}"), uid=f"uid-{name}-{self.made}")

    def admitted(self, document: Any, name: str = "nginx") -> Any:
        """Return an object as the API would store it; each has a uid of its own."""
        self.made += 1
        rename = ("nginx", name) if isinstance(document, str) else ("", "")
        found = admitted(document, self.world.settings, now=self.world.now, rename=rename)
        return replace(found, metadata=replace(found.metadata, uid=f"{found.metadata.uid}-{self.made}"))

    def deletes(self, obj: Any) -> None:
        """Delete an object as kubectl does."""
        if obj is not None and obj.metadata.deletion_timestamp is None:
            change = lifecycle.request_deletion(obj, now=self.world.now)
            self.world.store.apply([(None, Decision(changes=(change,)))], by=edits.PERSON)

    def breaks(self, member: str, fault: str = "down", *, seconds: float = 0.0) -> None:
        self.uncleaned |= {member} & self.going
        super().breaks(member, fault, seconds=seconds)

    def configure(self, **overrides: Any) -> None:
        super().configure(featureGates={**PREEMPTION, **overrides.pop("featureGates", {})}, **overrides)

    # What is there again in the end

    def asks_for(self, name: str) -> None:
        """Let a workload and its policy be there: as soon as those before them are gone."""
        found, policy = self.deployment(name), self.policy(name)
        self.excuse(name)
        if policy is None:
            self.policies[name] = self.chance.choice((self.policies[name], *people.POLICIES))
            self.world.create(self.admitted(self.policies[name], name))
        if found is None:
            self.world.create(self.admitted(NGINX % self.chance.choice((2, 3)), name))
        if any(one is not None and one.metadata.deletion_timestamp is not None for one in (found, policy)):
            self.world.after(1, lambda: self.asks_for(name))

    def joins(self, member: str) -> None:
        """Let a cluster be there: as soon as the one before it is gone."""
        found = self.cluster(member)
        if found.metadata.deletion_timestamp is not None:
            self.world.after(1, lambda: self.joins(member))
        elif not found.metadata.uid:
            self.going.discard(member)
            self.world.create(self.admitted(cluster(member, pull=member in self.world.agents)))

    def taints(self) -> None:
        """Let the policy be there that says what not Ready means."""
        if not self.world.store.list(kinds.CLUSTER_TAINT_POLICY):
            self.world.create(self.admitted(NOT_READY_MEANS_LEAVE))

    def _heal(self) -> None:
        for taker in self.takers:
            self.deletes(self.world.store.object(taker))
        for name in APPS:
            people.scale(self, name, 3)
            self.asks_for(name)
        self.taints()
        for member in self.world.members:
            people.label(self, member, "a")
            self.joins(member)
        super()._heal()

    def left_over(self) -> str:
        store = self.world.store
        if self.world.failures:
            return f"{self.world.failures[0].error}\n{self.world.failures[0].trace}"
        if waiting := store.evictions_by_cluster():
            return f"{waiting} still queued"
        if rest := [str(taker) for taker in self.takers if store.object(taker) is not None]:
            return f"still there: {rest}"
        return next(filter(None, map(self._wrong, APPS)), "")

    def _wrong(self, name: str) -> str:
        """Return what is not as it was asked for about a workload."""
        ref = Ref(kinds.RESOURCE_BINDING, "default", f"{name}-deployment")
        binding, template = self.world.store.object(ref), self.deployment(name)
        if template is None or not isinstance(binding, Binding) or binding.metadata.deletion_timestamp is not None:
            return f"{name} is not there"
        spec, replicas = binding.spec, template.spec["replicas"]
        placed = {target.name: target.replicas for target in spec.clusters}
        if binding.metadata.annotations.get("propagationpolicy.karmada.io/name") != f"{name}-propagation":
            return f"{name} belongs to {binding.metadata.annotations}"
        if spec.graceful_eviction_tasks:
            return f"{name} still leaves {[one.from_cluster for one in spec.graceful_eviction_tasks]} for {placed}"
        for said in (condition(binding.status.conditions, type_) for type_ in STANDS_IN_THE_WAY):
            if said is not None and said.status == "True":
                return f"{name} still says {said}"
        divided = spec.placement is not None and spec.placement.divided
        if (sum(placed.values()) if divided else max(placed.values(), default=0)) != replicas:
            return f"{name} is placed {placed}, not {replicas}"
        works = self.world.store.by_index(kinds.WORK, "binding", [str(ref)]).get(str(ref), ())
        if {one.metadata.namespace.removeprefix("karmada-es-") for one in works} != set(placed):
            return f"{name} has Works in {[one.metadata.namespace for one in works]}, placed {placed}"
        return next(filter(None, (self._differs(member, name, placed) for member in self.world.members)), "")

    def _differs(self, member: str, name: str, placed: dict[str, int]) -> str:
        held = self.world.members[member].objects.get(("apps/v1", "Deployment", "default", name))
        count = None if held is None else held.wanted
        if count == placed.get(member) or (member in self.uncleaned and member not in placed):
            return ""
        return f"{member} holds {count} of {name}, placed {placed}"

    def leaves(self, member: str, *, kept: bool) -> None:
        """Note that a cluster goes; what runs on a cluster out of reach stays there."""
        self.going.add(member)
        self.uncleaned |= {member} if kept or self.is_away(member) else set()

    def is_away(self, member: str) -> bool:
        """Test whether no change reaches a member now."""
        return self.world.members[member].fault != UP or self.cluster(member).ready != "True"


def run(seed: int) -> Crowd:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    crowd = Crowd(seed)
    ran(crowd, replay(seed, "crowd"))
    return crowd


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))

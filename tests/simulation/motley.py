"""Trouble with features that the other stories leave out: lazy policies, suspended scheduling, regions, overflow,
preserved state, cordons, objects of the whole cluster, new versions, shared needs, and members whose answers are lost.

    python -m tests.simulation.motley 4711

runs one seed again and prints its timeline. Beside what `throng` asserts, everything is at rest in the end.
"""

from __future__ import annotations

import sys
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.kinds.binding import Binding
from controlplane.propagation import works
from tests.simulation import edits, features, people, trouble, wishes
from tests.simulation.chaos import APPS, BEGINS, ran, replay
from tests.simulation.crowd import WITHIN
from tests.simulation.settled import unsettled
from tests.simulation.throng import PEOPLE, Throng
from tests.simulation.timeline import reported
from tests.simulation.world import Simulation

FEATURES, WISHES, ACTS, AMID = 2, 1, 1, 3  # beside the first feature: how many others, wishes, acts and faults
GATES = {"StatefulFailoverInjection": True, "WorkloadAffinity": True}
COMMON = ("v1", "ConfigMap", "default", "common")
ALL, PLENTY = Ref(kinds.FEDERATED_QUOTA, "default", "all"), 1000  # a quota that refuses nothing, and counts
STORAGE = Ref(kinds.CLUSTER_RESOURCE_BINDING, "", "fast-storageclass")


class Motley(Throng):
    """One seeded run. `common`: members that have what all workloads need."""

    def __init__(self, seed: int) -> None:
        self.common: set[str] = set()
        super().__init__(seed)
        gates = {**self.world.settings.feature_gates, **GATES}
        self.world.settings = replace(self.world.settings, feature_gates=gates)
        self.world.create(self.admitted(features.COMMON), self.admitted(features.OF_STORAGE))
        self.world.create(self.admitted(features.STORAGE), self.admitted(wishes.QUOTA % (ALL.name, PLENTY)))
        for old in self.world.store.list(kinds.CLUSTER):
            edits.put(self.world, old.with_spec(region=features.REGIONS[old.metadata.name]), old)

    def _planned(self) -> list[tuple[float, str]]:
        names = list(features.FEATURES)
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, k=FEATURES)]
        chosen += self.chance.choices(list(wishes.WISHES), k=WISHES) + self.chance.choices(PEOPLE, k=ACTS)
        chosen += self.chance.choices(list(trouble.FAULTS), k=AMID)
        return sorted((BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen)

    def _apply(self, name: str, policy: str) -> None:
        self.policies[name] = self.chance.choice((*people.POLICIES, *wishes.POLICIES, *features.POLICIES * 2))
        for text in (self.policies[name], features.NGINX % 3):
            self.world.create(self.admitted(text, name))

    def happens(self, fault: str) -> None:
        if fault in features.FEATURES:
            self.world.note(f"ordered: {fault}")
            features.FEATURES[fault](self)
        else:
            super().happens(fault)

    def configure(self, **overrides: Any) -> None:
        super().configure(featureGates={**GATES, **overrides.pop("featureGates", {})}, **overrides)

    def _heal(self) -> None:
        for name in APPS:
            features.schedules(self, name, suspended=None)
            self.changes(name, activation_preference="")
        for member, region in features.REGIONS.items():
            features.watched(self, member)
            features.located(self, member, region)
        super()._heal()

    def joins(self, member: str) -> None:
        super().joins(member)
        features.located(self, member, features.REGIONS[member])

    def left_over(self) -> str:
        if found := super().left_over():
            return found
        binding = self.world.store.object(STORAGE)
        if not isinstance(binding, Binding) or len(binding.spec.clusters) != 2:
            return f"fast is on {None if binding is None else binding.spec.clusters}"
        return self._miscounted() or unsettled(self.world, self.uncleaned)

    def _miscounted(self) -> str:
        """Return how a quota counts otherwise than what is placed; "": it does not."""
        quota: Any = self.world.store.object(ALL)
        found = self.world.store.list(kinds.RESOURCE_BINDING)
        placed = sum(target.replicas for one in found for target in one.spec.clusters if one.workload)
        used = quota.status.overall_used.get("cpu")
        return "" if used == str(placed) else f"{ALL} counts {used}, and {placed} are placed"

    def _with_what_they_need(self, world: Simulation) -> None:
        super()._with_what_they_need(world)
        before, self.common = self.common, {name for name, one in world.members.items() if COMMON in one.objects}
        for name in APPS if before - self.common else ():
            policy = self.policy(name)
            wants = policy is not None and policy.spec.propagate_deps and self.edited.get(name, world.now) <= world.now
            for member in before - self.common if wants else ():
                runs = ("apps/v1", "Deployment", "default", name) in world.members[member].objects
                assert not runs, f"[dependency-propagation] {member} runs {name} without what all need, at {world.now}"

    def _needed(self, name: str) -> str:
        for need in (f"{name}-needed", "common"):
            ref = Ref(kinds.RESOURCE_BINDING, "default", f"{need}-configmap")
            if found := self._held(("v1", "ConfigMap", "default", need), ref):
                return found
        return ""

    def _held(self, place: tuple[str, str, str, str], ref: Ref) -> str:
        binding = self.world.store.object(ref)
        wanted = {target.name for target in works.targets(binding)} if isinstance(binding, Binding) else set()
        members = self.world.members.values()
        held = {one.name for one in members if place in one.objects and place not in one.released}
        return "" if held - self.uncleaned == wanted - self.uncleaned else f"{place} is on {held}, not {wanted}"


def run(seed: int) -> Motley:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    motley = Motley(seed)
    ran(motley, replay(seed, "motley"))
    return motley


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))

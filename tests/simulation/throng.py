"""Trouble with what workloads may ask for besides a place: overrides, suspensions, quotas, dependencies, application
failover, little room, and outages of the control plane itself.

    python -m tests.simulation.throng 4711

runs one seed again and prints its timeline. Beside what `crowd` asserts, quotas are kept, workloads have what they need
on every member, and copies that leave Directly stay while no new copy could start.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, condition
from controlplane.eviction.directly import DIRECTLY_WAITING, PROCEEDED
from controlplane.kinds.binding import OVERRIDES_APPLIED, Binding
from controlplane.kinds.policy import DIRECTLY
from tests.simulation import edits, people, trouble, wishes
from tests.simulation.chaos import APPS, BEGINS, ran, replay
from tests.simulation.crowd import WITHIN, Crowd
from tests.simulation.invariants import refused_by_quota, scheduled, wanted
from tests.simulation.timeline import reported
from tests.simulation.world import Serving, Simulation

WISHES, ACTS, AMID = 2, 1, 4  # beside the first wish: how many others, what people do, and how much trouble there is
LATELY = timedelta(seconds=10)  # for which a decision may rest on what was so before
HAND = ("placed_by_hand", "reverted")  # writes that no quota has been asked about
PEOPLE = tuple(name for name in people.ACTS if name not in HAND)
TROUBLE = tuple(name for name in trouble.FAULTS if name not in ("commits_lost", "policy_edited", "gate_closed"))
ENFORCED = {"FederatedQuotaEnforcement": True}


class Throng(Crowd):
    """One seeded run.

    `prevented`: since when nothing new of a workload can start on a cluster. `limits`: the most that may be placed
    because of each quota. `edited`: until when a user's edit explains what happens to a workload; `open`: those whose
    edit has no result yet, `limited`: those that a quota has refused. `supplied`: members and workloads that have what
    they need. `copies`: the replicas of each workload, by member.
    """

    def __init__(self, seed: int) -> None:
        self.prevented: dict[tuple[str, str], datetime] = {}
        self.edited: dict[str, datetime] = {}
        self.open: set[str] = set()
        self.limited: set[str] = set()
        self.supplied: set[tuple[str, str]] = set()
        self.copies: dict[str, dict[str, int]] = {}
        self.limits: dict[Ref, int] = {}
        self.asked: list[Ref] = []
        super().__init__(seed)
        gates = {**self.world.settings.feature_gates, **ENFORCED}
        self.world.settings = replace(self.world.settings, feature_gates=gates)
        for member in self.world.members.values():
            member.reports_pods = True
        for name in APPS:
            self.world.create(self.admitted(wishes.NEEDED, name))
        self.world.checks += [self._note_granted, self._within_quotas, self._with_what_they_need, self._never_twice]
        self.world.taken.append(self._nothing_taken_for_nothing)

    def _planned(self) -> list[tuple[float, str]]:
        names = list(wishes.WISHES)
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, k=WISHES)]
        chosen += self.chance.choices(PEOPLE, k=ACTS) + self.chance.choices(TROUBLE, k=AMID)
        return sorted((BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen)

    def _apply(self, name: str, policy: str) -> None:
        self.policies[name] = self.chance.choice((*people.POLICIES, *wishes.POLICIES))
        for text in (self.policies[name], wishes.NGINX % 3):
            self.world.create(self.admitted(text, name))

    def happens(self, fault: str) -> None:
        if fault in wishes.WISHES:
            self.world.note(f"ordered: {fault}")
            wishes.WISHES[fault](self)
        else:
            super().happens(fault)

    def configure(self, **overrides: Any) -> None:
        super().configure(featureGates={**ENFORCED, **overrides.pop("featureGates", {})}, **overrides)

    def makes(self, obj: Object) -> Ref:
        """Create what is deleted when everything heals."""
        self.world.create(obj)
        self.asked.append(obj.ref)
        return obj.ref

    def binding(self, name: str) -> Binding | None:
        """Return the binding of a workload, None where there is none."""
        found = self.world.store.object(Ref(kinds.RESOURCE_BINDING, "default", f"{name}-deployment"))
        return found if isinstance(found, Binding) else None

    def changes(self, name: str, **spec: Any) -> None:
        """Change the policy of a workload, where there is one."""
        old = self.policy(name)
        if old is not None and old.metadata.deletion_timestamp is None:
            new = old.with_spec(**spec)
            if new is not old:
                edits.put(self.world, new, old)

    def excuse(self, workload: str) -> None:
        super().excuse(workload)
        self.edited[workload] = self.world.excused[workload]
        self.open.add(workload)

    def _bold(self, world: Simulation) -> None:
        edited, still = dict(self.edited), set(self.open)
        super()._bold(world)
        self.edited, self.open = edited, still

    # What must hold

    def _note_granted(self, world: Simulation) -> None:
        """Note what quotas grant, and excuse an edit for as long as nothing fits that it asks for."""
        for one in world.store.list(kinds.RESOURCE_BINDING):
            name = one.spec.resource.name
            if refused_by_quota(one):
                self.limited.add(name)
                continue
            if scheduled(one):
                if name in self.limited & self.open:  # what a user asked for long ago has its result only now
                    self.excuse(name)
                self.limited.discard(name)
                world.granted[name] = wanted(one)
                self.open -= {name} if self.edited.get(name, world.now) <= world.now else set()
            elif name in self.open:
                super().excuse(name)
                self.edited[name] = world.excused[name]

    def _within_quotas(self, world: Simulation) -> None:
        """What is placed exceeds no quota, but by what was there before the quota was made or lowered."""
        if not self.limits:
            return
        found = world.store.list(kinds.RESOURCE_BINDING)
        placed = sum(target.replicas for one in found for target in one.spec.clusters)
        for ref, most in self.limits.items():
            assert placed <= most, f"[federated-quotas] {placed} placed, {ref} allows {most}, at {world.now}"

    def _with_what_they_need(self, world: Simulation) -> None:
        """What a workload needs is not taken from a member while it runs there."""
        supplied = set()
        for name in APPS:
            policy = self.policy(name)
            wants = policy is not None and policy.spec.propagate_deps and self.edited.get(name, world.now) <= world.now
            for member in world.members.values():
                runs = ("apps/v1", "Deployment", "default", name) in member.objects
                if ("v1", "ConfigMap", "default", f"{name}-needed") in member.objects:
                    supplied |= {(member.name, name)}
                elif wants and runs:
                    assert (member.name, name) not in self.supplied, (
                        f"[dependency-propagation] {member.name} runs {name} without what it needs, at {world.now}"
                    )
        self.supplied = supplied

    def _never_twice(self, world: Simulation) -> None:
        """[directly-unreachable] while a copy is there that leaves Directly, no other one starts or grows for it."""
        before, self.copies = self.copies, {name: self._copies(name) for name in APPS}
        for name, held in self.copies.items():
            if held == before.get(name) or self.edited.get(name, world.now) > world.now:
                continue
            binding, last = self.binding(name), before.get(name, {})
            if binding is None or not any(count > last.get(member, 0) for member, count in held.items()):
                continue
            said = condition(binding.status.conditions, DIRECTLY_WAITING)
            if said is not None and said.reason == PROCEEDED:
                continue  # a user has said that they may start
            for task in binding.spec.graceful_eviction_tasks:
                source, since = task.from_cluster, task.creation_timestamp
                waits = source in held and source in last and binding.spec.target(source) is None
                if task.purge_mode != DIRECTLY or not waits or since is None or since + LATELY > world.now:
                    continue
                if source in self.uncleaned:
                    continue  # the copy is one that a user has left there, of which nothing is known any more
                running = held[source] + sum(min(held.get(one.name, 0), one.replicas) for one in binding.spec.clusters)
                assert running <= wanted(binding), (
                    f"[directly-unreachable] {name} is on {held}, was on {last}, and leaves {source}, at {world.now}"
                )

    def _copies(self, name: str) -> dict[str, int]:
        place = ("apps/v1", "Deployment", "default", name)
        return {one.name: held.wanted for one in self.world.members.values() if (held := one.seen(place)) is not None}

    def _nothing_taken_for_nothing(self, world: Simulation, name: str, before: Serving, after: Serving) -> None:
        """[purge-modes] a copy does not leave Directly while all that is to replace it cannot start."""
        binding = self.binding(name)
        if binding is None or binding.metadata.deletion_timestamp is not None:
            return  # a user has deleted the workload, and none of its copies is to stay
        if sum(after.values()) >= min(sum(before.values()), wanted(binding)):
            return
        tasks = [task.from_cluster for task in binding.spec.graceful_eviction_tasks if task.purge_mode == DIRECTLY]
        lost = [one for one in tasks if after.get(one, 0) < before.get(one, 0)]
        for target in binding.spec.clusters if lost else ():
            since = self.prevented.get((name, target.name))
            held = world.members[target.name].objects.get(("apps/v1", "Deployment", "default", name))
            starts = held is None or held.wanted < target.replicas
            assert not starts or since is None or since + LATELY > world.now, (
                f"[purge-modes] {name} left {lost} for {target.name}, where it cannot start, at {world.now}"
            )

    # What is there again in the end

    def _heal(self) -> None:
        self.prevented.clear()
        self.limits.clear()
        for ref in self.asked:
            self.deletes(self.world.store.object(ref))
        for name in APPS:
            self.changes(name, suspension=None, preserve_resources_on_deletion=None)
            wishes.well(self, name)
        for member in self.world.members.values():
            member.pods = wishes.PODS
        super()._heal()

    def asks_for(self, name: str) -> None:
        found, policy = self.deployment(name), self.policy(name)
        self.excuse(name)
        if policy is None:
            self.policies[name] = self.chance.choice((self.policies[name], *people.POLICIES, *wishes.POLICIES))
            self.world.create(self.admitted(self.policies[name], name))
        if found is None:
            self.world.create(self.admitted(wishes.NGINX % self.chance.choice((2, 3)), name))
        if any(one is not None and one.metadata.deletion_timestamp is not None for one in (found, policy)):
            self.world.after(1, lambda: self.asks_for(name))

    def left_over(self) -> str:
        rest = [str(ref) for ref in self.asked if self.world.store.object(ref) is not None]
        return f"still there: {rest}" if rest else super().left_over()

    def _wrong(self, name: str) -> str:
        if wrong := super()._wrong(name):
            return wrong
        binding = self.binding(name)
        assert binding is not None
        said = condition(binding.status.conditions, OVERRIDES_APPLIED)
        if said is not None and said.status == "False":
            return f"{name} still says {said}"
        return self._needed(name)

    def _needed(self, name: str) -> str:
        """Return what is wrong about the place of what a workload needs."""
        binding = self.binding(name)
        assert binding is not None
        placed = {target.name for target in binding.spec.clusters}
        needs = placed if binding.spec.propagate_deps else set()
        config = ("v1", "ConfigMap", "default", f"{name}-needed")
        members = self.world.members.values()
        held = {one.name for one in members if config in one.objects and config not in one.released}
        if held - self.uncleaned != needs - self.uncleaned:
            return f"what {name} needs is on {sorted(held)}, not {sorted(needs)}"
        return ""

    def _differs(self, member: str, name: str, placed: dict[str, int]) -> str:
        if member not in placed and ("apps/v1", "Deployment", "default", name) in self.world.members[member].released:
            return ""
        return super()._differs(member, name, placed)


def run(seed: int) -> Throng:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    throng = Throng(seed)
    ran(throng, replay(seed, "throng"))
    return throng


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))

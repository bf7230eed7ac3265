"""Random trouble: for every seed a fleet, some workloads and a string of faults; at the end everything has healed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import yaml

from controlplane import kinds
from controlplane.kinds.policy import Toleration
from controlplane.meta import Ref
from tests.simulation.eviction_watch import EvictionWatch
from tests.simulation.manifests import DIVIDED, DUPLICATED, NGINX, admitted
from tests.simulation.stories import joined
from tests.simulation.world import START, Simulation

CALM_AFTER = 290.0  # seconds: no fault begins later
QUIET_AT = 700.0  # seconds: by then everything has to be healed

FAULTS = (
    "down",
    "flap",
    "unauthorized",
    "notready",
    "redis_lost",
    "redis_flushed",
    "killed",
    "policy_edited",
    "scaled",
    "late_ticks",
    "probe_lost",
    "all_down",
)


class Chaos:
    """One seeded run. `fired` counts the faults that really happened."""

    def __init__(self, seed: int) -> None:
        self.fired: Counter[str] = Counter()
        self.world = joined(*(f"member{number}" for number in range(1, 6)), seed=seed)
        self.watch = EvictionWatch()
        self.world.checks.append(self.watch)
        self.chance = self.world.chance
        self.apps = {f"app-{number}": self.chance.choice((DIVIDED, DUPLICATED)) for number in range(3)}
        self.plan = self._planned()
        for name, policy in self.apps.items():
            self._apply(name, policy)

    def _planned(self) -> list[tuple[float, str]]:
        """Return when which fault shall happen."""
        moment, plan = 40.0, []
        for _ in range(self.chance.randint(2, 5)):
            moment += self.chance.uniform(1, 50)
            plan.append((moment, self.chance.choice(FAULTS)))
        return plan

    def _apply(self, name: str, policy: str) -> None:
        for text in (policy, NGINX % 3):
            doc = yaml.safe_load(text.replace("nginx", name))
            self.world.create(admitted(doc, self.world.settings, now=self.world.now))

    def run(self) -> Simulation:
        """Let the faults happen, then let everything heal."""
        self.world.run(40)
        for moment, fault in self.plan:
            self.world.at(moment, self._cause(fault, moment))
        self.world.at(CALM_AFTER + 60, self._heal)
        self.world.run(QUIET_AT)
        return self.world

    def _cause(self, fault: str, moment: float) -> Callable[[], None]:
        def act() -> None:
            self.fired[fault] += 1
            getattr(self, f"_{fault}")(moment)

        return act

    def _member(self) -> str:
        return self.chance.choice(sorted(self.world.members))

    def _lasting(self, member: str, fault: str, moment: float) -> None:
        self.world.fault(member, fault)
        self.world.at(moment + self.chance.uniform(0.5, 60), lambda: self.world.fault(member, "none"))

    def _down(self, moment: float) -> None:
        self._lasting(self._member(), "down", moment)

    def _unauthorized(self, moment: float) -> None:
        self._lasting(self._member(), "unauthorized", moment)

    def _notready(self, moment: float) -> None:
        self._lasting(self._member(), "notready", moment)

    def _probe_lost(self, moment: float) -> None:
        member = self._member()
        self.world.fault(member, "down")
        self.world.at(moment + 0.9, lambda: self.world.fault(member, "none"))

    def _flap(self, moment: float) -> None:
        member = self._member()
        for turn in range(8):
            fault = "down" if turn % 2 == 0 else "none"
            self.world.at(moment + 2 * turn, lambda fault=fault: self.world.fault(member, fault))

    def _all_down(self, moment: float) -> None:
        for member in self.world.members:
            self._lasting(member, "down", moment)

    def _redis_lost(self, moment: float) -> None:
        self.world.redis_away = True
        self.world.at(moment + self.chance.uniform(1, 40), self._redis_back)

    def _redis_back(self) -> None:
        self.world.redis_away = False

    def _redis_flushed(self, moment: float) -> None:
        self.world.buckets.clear()
        self.watch.flushed = self.world.now

    def _killed(self, moment: float) -> None:
        self.world.kill_rate = 0.1
        self.world.at(moment + 20, self._kept_alive)

    def _kept_alive(self) -> None:
        self.world.kill_rate = 0.0

    def _late_ticks(self, moment: float) -> None:
        """Every object of every controller is looked at again, at once."""
        for (name, ref), due in list(self.world.store.due.items()):
            if due.lease_until is None:
                self.world.store.mark(name, [ref])

    def _policy_edited(self, moment: float) -> None:
        name = self.chance.choice(sorted(self.apps))
        self._excuse(name)
        ref = Ref(kinds.PROPAGATION_POLICY, "default", f"{name}-propagation")
        policy = self.world.store.get([ref])[ref]
        seconds = self.chance.choice((0, 20, 300))
        toleration = {"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        placement = _replaced(policy.spec.placement, toleration | {"tolerationSeconds": seconds})
        assert not self.world.store.put(policy.with_spec(placement=placement), policy).lost

    def _excuse(self, name: str) -> None:
        """A user's own edit may cost copies while what it asks for comes up (I1)."""
        self.world.excused[name] = self.world.now + timedelta(seconds=10)

    def _scaled(self, moment: float) -> None:
        ref = Ref("apps/Deployment", "default", self.chance.choice(sorted(self.apps)))
        deployment = self.world.store.get([ref])[ref]
        spec = {**deployment.spec, "replicas": self.chance.randint(1, 8)}
        changed = deployment.with_content({**deployment.content, "spec": spec})
        assert not self.world.store.put(changed, deployment).lost
        self._excuse(ref.name)

    def _heal(self) -> None:
        self.world.redis_away, self.world.kill_rate = False, 0.0
        for member in self.world.members:
            self.world.fault(member, "none")


def _replaced(placement: Any, toleration: dict[str, Any]) -> Any:
    return msgspec.structs.replace(placement, cluster_tolerations=(msgspec.convert(toleration, Toleration),))


def healed(world: Simulation) -> None:
    """Assert that nothing is left over: workloads placed whole, no task, no queue, members holding what they should."""
    where = f"seed {world.seed}"
    assert not world.failures, f"{where}: {world.failures[0].error}\n{world.failures[0].trace}"
    for binding in world.store.list(kinds.RESOURCE_BINDING):
        placed = {target.name: target.replicas for target in binding.spec.clusters}
        assert not binding.spec.graceful_eviction_tasks, f"{where}: {binding.ref} still leaves {placed}"
        assert binding.spec.placement is not None
        if binding.spec.placement.divided:
            assert sum(placed.values()) == binding.spec.replicas, f"{where}: {binding.ref} {placed}"
        else:
            assert len(placed) == 2, f"{where}: {binding.ref} {placed}"
            assert set(placed.values()) == {binding.spec.replicas}, f"{where}: {binding.ref} {placed}"
        name = binding.spec.resource.name
        for member in world.members.values():
            held = member.objects.get(("apps/v1", "Deployment", "default", name))
            count = None if held is None else held.wanted
            assert count == placed.get(member.name), f"{where}: {member.name} holds {count} of {name}, placed {placed}"
    assert not world.store.evictions_by_cluster(), f"{where}: {world.store.evictions_by_cluster()} still queued"
    assert world.now - START >= timedelta(seconds=QUIET_AT)

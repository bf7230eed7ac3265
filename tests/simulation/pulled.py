"""Trouble with Pull clusters: agents that stop, are cut off, lag, restart, and come back with an old cache.

    python -m tests.simulation.pulled 4711

runs one seed again and prints its timeline. Three of the five members have an agent. Beside what `crowd` asserts, an
agent has nothing left to do in the end.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from msgspec.structs import replace

from controlplane import kinds
from controlplane.kinds import LEASE
from controlplane.settings import Settings
from tests.simulation import absences, people
from tests.simulation.chaos import BEGINS, SETTINGS, ran, replay
from tests.simulation.crowd import TROUBLE, WITHIN, Crowd
from tests.simulation.stories import in_service
from tests.simulation.timeline import reported
from tests.simulation.world import Simulation

PULL = ("member1", "member2", "member4")
ABSENCES, ACTS, AMID = 3, 2, 2  # beside the first absence: how many others, what people do, and how much trouble
# Seconds instead of minutes, as for probes: a heartbeat each second, and silence counts after four.
HEARTBEATS: Settings = replace(
    SETTINGS, cluster_lease_duration=4, cluster_monitor_grace_period=4, cluster_startup_grace_period=12
)


class Pulled(Crowd):
    """One seeded run."""

    settings = HEARTBEATS

    def _fleet(self) -> Simulation:
        return fleet()

    def _planned(self) -> list[tuple[float, str]]:
        names = list(absences.ABSENCES)
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, k=ABSENCES)]
        chosen += self.chance.choices(list(people.ACTS), k=ACTS) + self.chance.choices(TROUBLE, k=AMID)
        return sorted((BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen)

    def _changes(self) -> int:
        return sum(change.ref.kind != LEASE for change in self.world.store.log)

    def happens(self, fault: str) -> None:
        if fault in absences.ABSENCES:
            self.world.note(f"ordered: {fault}")
            absences.ABSENCES[fault](self)
        else:
            super().happens(fault)

    def edge(self) -> str:
        """Return a member with an agent that is there; any with an agent where there is none. It is not cleaned any
        more if it is just going."""
        there = [name for name, agent in self.world.agents.items() if not agent.is_away and not self.is_away(name)]
        placed = {target.name for one in self.world.store.list(kinds.RESOURCE_BINDING) for target in one.spec.clusters}
        member = self.chance.choice([name for name in there if name in placed] or there or sorted(self.world.agents))
        self.uncleaned |= {member} & self.going
        return member

    def is_away(self, member: str) -> bool:
        agent = self.world.agents.get(member)
        behind = agent is not None and (agent.is_away or agent.behind_until > self.world.now)
        return behind or super().is_away(member)

    def joins(self, member: str) -> None:
        super().joins(member)
        if member in self.world.agents:
            self.registers(member)

    def registers(self, member: str) -> None:
        """Let the agent of a cluster that was joined again be registered again, some seconds later."""
        found: Any = self.cluster(member)

        def done() -> None:
            agent = self.world.agents[member]
            if self.cluster(member).metadata.uid == found.metadata.uid and agent.line.uid != found.metadata.uid:
                agent.line.register()
                agent.start()

        if found.metadata.uid and found.metadata.deletion_timestamp is None:
            self.later(0.1, 6, done)

    def _heal(self) -> None:
        for agent in self.world.agents.values():
            agent.mend()
            agent.starts()
            agent.behind_until = self.world.now
        super()._heal()

    def left_over(self) -> str:
        if found := super().left_over():
            return found
        idle = (
            name for name, agent in self.world.agents.items() if agent.turns() or self.cluster(name).ready != "True"
        )
        return next((f"the agent of {name} is not done" for name in idle), "")


@cache
def fleet() -> Simulation:
    """Return the fleet that every seed begins with; it is made once."""
    return in_service(*(f"member{number}" for number in range(1, 6)), settings=HEARTBEATS, pull=PULL)


def run(seed: int) -> Pulled:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    pulled = Pulled(seed)
    ran(pulled, replay(seed, "pulled"))
    return pulled


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))

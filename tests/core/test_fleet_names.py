"""Names of fleets go when the last note that refers to them has gone."""

from __future__ import annotations

from datetime import timedelta

from controlplane.controllers.fleet_names import LOOK, FleetNamesCleanup
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds.policy import Placement
from controlplane.kinds.rows import FleetNames
from controlplane.settings import Settings
from tests.builders.objects import START, cluster
from tests.builders.placements import DYNAMIC
from tests.core.desk import pending


class Clerk:
    """The scheduler, and who tidies up behind it."""

    def __init__(self) -> None:
        self.now = START
        self.controllers = [Scheduler(), FleetNamesCleanup()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)

    def settle(self) -> None:
        run.run_until_idle(self.controllers, self.store, Settings(), world=run.World())

    def an_hour_later(self) -> None:
        self.now += LOOK + timedelta(seconds=1)
        self.settle()

    def kept(self) -> set[str]:
        """Return the lists of names that are kept."""
        keys = self.store.values(FleetNames, "key")
        return {row.names for rows in self.store.rows(FleetNames, "key", keys).values() for row in rows}


def test_names_stay_while_a_note_uses_them_and_go_after_it() -> None:
    clerk = Clerk()
    web = pending("web", Placement(replica_scheduling=DYNAMIC))
    clerk.store.create(cluster("a", room=9), web)
    clerk.settle()
    clerk.store.create(cluster("b", room=9), pending("db", Placement(replica_scheduling=DYNAMIC)))
    clerk.settle()
    clerk.an_hour_later()
    assert clerk.kept() == {'["a"]', '["a","b"]'}  # web was placed when there was one cluster

    old = clerk.store.get([web.ref])[web.ref]
    clerk.store.put(old.with_spec(replicas=3), old)
    clerk.settle()
    clerk.an_hour_later()

    assert clerk.kept() == {'["a","b"]'}

"""The live scheduler in memory: a store, its controllers, a clock moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.reservations import Reservations
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import (
    SCHEDULED,
    Binding,
)
from controlplane.kinds.cluster import (
    Cluster,
)
from controlplane.kinds.policy import Placement
from controlplane.settings import Settings
from tests.builders.objects import START, binding


def pending(name: str, placement: Placement | None, *, replicas: int = 1, on: Mapping[str, int] = {}) -> Binding:
    """Return a binding whose replicas request one cpu each and which the scheduler has not looked at yet."""
    return binding(name, placement, on=on, replicas=replicas, cpu="1", scheduled=False).with_meta(name=name)


class Desk:
    """A store with the scheduler and a clock moved by hand."""

    def __init__(self, *objects: Any, settings: Settings | None = None) -> None:
        self.now = START
        self.settings = settings or Settings()
        self.controllers = [Scheduler(), Reservations()]
        self.store = MemoryStore(controllers=self.controllers, clock=lambda: self.now)
        self.store.create(*objects)
        self.settle()

    def settle(self) -> None:
        run.run_until_idle(self.controllers, self.store, self.settings, world=run.World())

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self.settle()

    def binding(self, name: str) -> Binding:
        found: Binding = self.store.get([Ref(RESOURCE_BINDING, "default", name)])[
            Ref(RESOURCE_BINDING, "default", name)
        ]
        return found

    def places(self, name: str) -> dict[str, int]:
        return {one.name: one.replicas for one in self.binding(name).spec.clusters}

    def said(self, name: str) -> tuple[str, str]:
        found = condition(self.binding(name).status.conditions, SCHEDULED)
        assert found is not None
        return found.status, found.reason

    def change(self, new: Any) -> None:
        old = self.store.get([new.ref])[new.ref]
        self.store.put(new.with_meta(resource_version=old.metadata.resource_version), old)
        self.settle()

    def cluster(self, name: str) -> Cluster:
        found: Cluster = self.store.get([Ref(CLUSTER, "", name)])[Ref(CLUSTER, "", name)]
        return found

    def decided(self) -> list[str]:
        """Names of the bindings that are due for the scheduler now, once fan-outs are worked off."""
        scheduler = self.controllers[0]
        while any(ref.kind not in scheduler.keys for ref in self.store.due.get("scheduler", ())):
            claims = self.store.claim("scheduler", shard=0, shards=1, limit=1000, lease_seconds=1)
            for claim in claims.claims:
                if claim.ref.kind in scheduler.keys:
                    continue
                refs, cursor = scheduler.expand_all(self.store, [claim.ref], after=claim.cursor, limit=2)
                self.store.advance([claim], refs, cursor=cursor)
            self.store.release([one for one in claims.claims if one.ref.kind in scheduler.keys])
        return sorted(ref.name for ref in self.store.due.get("scheduler", ()))

"""Trouble with what is there already, comes back, goes by another's hand or is not what it says: clusters joined again
with old copies, members put back to a backup, objects of others, statuses that lie, Works deleted by people, a store
that refuses values, policies that pre-empt each other, PriorityClasses and Namespaces that come and go.

    python -m tests.simulation.turmoil 4711

runs one seed again and prints its timeline. Beside what `motley` asserts, a copy that is missing has a reason that a
user sees.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import Any

import yaml

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, condition
from controlplane.controllers.reads.awaited_objects import PRIORITY_CLASS
from controlplane.engine.failure import Failure
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.kinds.binding import OVERRIDES_APPLIED, Binding
from controlplane.kinds.work import APPLIED
from controlplane.propagation import works
from tests.simulation import features, mishaps, trouble, wishes
from tests.simulation.chaos import APPS, BEGINS, ran, replay
from tests.simulation.crowd import WITHIN
from tests.simulation.member import UP
from tests.simulation.motley import Motley
from tests.simulation.store import REFUSED
from tests.simulation.throng import PEOPLE
from tests.simulation.timeline import reported
from tests.simulation.world import Simulation

MISHAPS, FEATURES, WISHES, ACTS, AMID = 2, 1, 1, 1, 3  # beside the first mishap
REFLECTING = ("work_status", "template_status")  # controllers that read what members report
SOON = timedelta(seconds=25)  # until a copy that is missing has to have a reason


class Turmoil(Motley):
    """One seeded run. `missing`: since when copies are not where they are wanted, and nothing says why."""

    team = Ref("Namespace", "", "team")

    def __init__(self, seed: int) -> None:
        self.missing: dict[tuple[Ref, str], datetime] = {}
        super().__init__(seed)
        for member in self.world.members.values():
            member.strict = True
        self.world.checks.append(self._missing_for_a_reason)

    def _planned(self) -> list[tuple[float, str]]:
        names = list(mishaps.MISHAPS)
        chosen = [names[self.seed % len(names)], *self.chance.choices(names, k=MISHAPS)]
        chosen += self.chance.choices(list(features.FEATURES), k=FEATURES)
        chosen += self.chance.choices(list(wishes.WISHES), k=WISHES) + self.chance.choices(PEOPLE, k=ACTS)
        chosen += self.chance.choices(list(trouble.FAULTS), k=AMID)
        return sorted((BEGINS + self.chance.uniform(0, WITHIN), name) for name in chosen)

    def happens(self, fault: str) -> None:
        if fault in mishaps.MISHAPS:
            self.world.note(f"ordered: {fault}")
            mishaps.MISHAPS[fault](self)
        else:
            super().happens(fault)

    # What mishaps are made of

    def document(self, text: str, name: str) -> Any:
        """Return a manifest as a user of a member has it there."""
        found = yaml.safe_load(text.replace("nginx", name))
        found["metadata"].setdefault("namespace", "default")
        return found

    def relisted(self, member: str) -> None:
        """Let the watch on a member list everything again."""
        self.world.seen_again(member)
        self.world.fault(member, self.world.members[member].fault)

    def class_ref(self, name: str) -> Ref:
        """Return the reference of a PriorityClass."""
        return Ref(PRIORITY_CLASS, "", name)

    def classed(self, name: str, value: int) -> None:
        """Let a PriorityClass be there."""
        if self.world.store.object(self.class_ref(name)) is None:
            self.makes(self.admitted(mishaps.CLASS % (name, value)))

    def needs(self, need: str) -> None:
        """Let a ConfigMap be there that workloads need: as soon as the one before it is gone."""
        old = self.world.store.object(Ref("ConfigMap", "default", need))
        if old is None:
            self.world.create(self.admitted(features.COMMON.replace("common", need)))
        elif old.metadata.deletion_timestamp is not None:
            self.world.after(1, lambda: self.needs(need))

    def teams(self) -> None:
        """Let the Namespace be there with all that belongs in it: as soon as the one before it is gone."""
        store = self.world.store
        old = store.object(self.team)
        if old is not None and old.metadata.deletion_timestamp is not None:
            self.world.after(1, self.teams)
            return
        for text in (mishaps.TEAM, mishaps.OF_TEAM, mishaps.IN_TEAM):
            found = self.admitted(text)
            if store.object(found.ref) is None:
                store.create(found)

    # What must hold

    def _missing_for_a_reason(self, world: Simulation) -> None:
        """A copy that is wanted on a cluster that is well, and is not there, has a reason that a user sees."""
        missing = {}
        ready = {one.metadata.name for one in world.store.list(kinds.CLUSTER) if one.answers and not one.terminating}
        well = {name for name in ready if world.members[name].fault == UP}
        for kind in kinds.BINDINGS:
            for binding in world.store.list(kind):
                if binding.metadata.deletion_timestamp is None:
                    missing |= self._missing(world, binding, well)
        self.missing = missing

    def _missing(self, world: Simulation, binding: Binding, well: set[str]) -> dict[tuple[Ref, str], datetime]:
        found = {}
        resource = binding.spec.resource
        place = resource.api_version, resource.kind, resource.namespace, resource.name
        for target in works.targets(binding):
            if target.name not in well or world.members[target.name].seen(place) is not None:
                continue
            if self._says_why(world, binding, target.name):
                continue
            key = binding.ref, target.name
            since = found[key] = self.missing.get(key, world.now)
            assert since + SOON >= world.now, (
                f"[stops-have-reasons] {binding.ref} is not on {target.name} since {since}, at {world.now}"
            )
        return found

    def _says_why(self, world: Simulation, binding: Binding, cluster: str) -> str:
        for type_, status in ((DIRECTLY_WAITING, "True"), (OVERRIDES_APPLIED, "False")):
            said = condition(binding.status.conditions, type_)
            if said is not None and said.status == status:
                return said.message
        if binding.spec.dispatching_suspended(cluster):
            return "suspended"
        own = world.store.by_index(kinds.WORK, "binding", [str(binding.ref)]).get(str(binding.ref), ())
        for work in own:
            if work.cluster == cluster:
                applied = condition(work.status.conditions, APPLIED)
                if work.spec.suspend_dispatching:
                    return "suspended"
                if applied is not None and applied.status == "False":
                    return applied.message
        return ""

    # What is there again in the end

    def _heal(self) -> None:
        world = self.world
        world.hesitates = 0.0
        world.store.refused.clear()
        world.failures[:] = [one for one in world.failures if not _is_expected(one)]
        for member in world.members.values():
            member.reports = None
            for place in member.released & set(member.objects):
                del member.objects[place]
            member.released.clear()
        for name in APPS:
            self.changes(name, schedule_priority=None, conflict_resolution="Abort")
        for need in (*(f"{name}-needed" for name in APPS), "common"):
            self.needs(need)
        if world.store.object(self.team) is not None:
            self.teams()
        super()._heal()
        for name in world.members:
            world.seen_again(name)
            world.fault(name, UP)


def _is_expected(failure: Failure) -> bool:
    """Test whether a failure is that of a value which the store refused, or of a status that cannot be."""
    return REFUSED in failure.error or failure.controller in REFLECTING


def run(seed: int) -> Turmoil:
    """Run one seed. Raises AssertionError with what does not hold, how to run it again, and what happened."""
    turmoil = Turmoil(seed)
    ran(turmoil, replay(seed, "turmoil"))
    return turmoil


if __name__ == "__main__":
    try:
        print(reported(run(int(sys.argv[1])).world))
    except AssertionError as failed:
        sys.exit(str(failed))

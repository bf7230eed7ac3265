"""What is there already, comes back, goes by other hands or is not what it says, in the middle of a failover. Each is
a function of a run, like those of `features`; none knows of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import UNJOIN_ANNOTATION
from controlplane.kinds.policy import SchedulePriority
from controlplane.kinds.work import Work, Workload
from tests.simulation import edits, features, people, wishes
from tests.simulation.chaos import APPS
from tests.simulation.manifests import NGINX as PLAIN
from tests.simulation.member import Held, Place

if TYPE_CHECKING:
    from tests.simulation.turmoil import Turmoil

CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: %s}
value: %d
"""
TEAM = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
IN_TEAM = """
apiVersion: v1
kind: ConfigMap
metadata: {name: rules, namespace: team}
data: {colour: green}
"""
OF_TEAM = """
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: rules, namespace: team}
spec:
  resourceSelectors: [{apiVersion: v1, kind: ConfigMap, name: rules}]
  placement:
    spreadConstraints: [{spreadByField: cluster, minGroups: 2, maxGroups: 2}]
"""
LIES: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda status: "fine",
    lambda status: None,
    lambda status: [status],
    lambda status: {**status, "readyReplicas": "three"},
    lambda status: {**status, "readyReplicas": 1e300, "availableReplicas": 2**80},
    lambda status: {**status, "observedGeneration": 2**70},
    lambda status: dict.fromkeys(status, -1),
    lambda status: dict.fromkeys(status, True),
    lambda status: {name: {"of": "nothing"} for name in status},
)


def _deployment(name: str) -> Place:
    return "apps/v1", "Deployment", "default", name


def _excuse_all(run: Turmoil) -> None:
    for name in APPS:
        run.excuse(name)


# Clusters


def rejoined(run: Turmoil) -> None:
    """A cluster is unjoined and joined again at once, with what runs there, whether it can be reached or not."""
    member, wish = run.victim(), run.chance.choice(("keep", "keep", "delete"))

    def leave() -> None:
        live = run.cluster(member)
        if not live.metadata.uid or live.terminating:
            return
        run.leaves(member, kept=True)
        _excuse_all(run)
        edits.put(run.world, live.with_meta(annotations={**live.metadata.annotations, UNJOIN_ANNOTATION: wish}), live)
        run.deletes(run.cluster(member))
        run.later(0, 3, lambda: run.joins(member))

    if run.chance.random() < 0.4:
        run.breaks(member, seconds=run.chance.uniform(4, 20))
    run.later(0, 20, leave)


def put_back(run: Turmoil) -> None:
    """A member gets an old backup of itself: what was removed since is there again, and what is new is gone."""
    member = run.world.members[run.victim()]
    before, released = member.kept(), set(member.released)

    def back() -> None:
        run.fires("put_back")
        _excuse_all(run)
        run.uncleaned.add(member.name)
        member.objects, member.released = before, released
        run.relisted(member.name)

    run.later(3, 25, back)


# Objects on members


def strayed(run: Turmoil) -> None:
    """Users of a member delete and change copies there."""
    for least, most in ((0, 12), (8, 30)):
        run.later(least, most, lambda: _stray(run))
    run.outage(14, 30)


def _stray(run: Turmoil) -> None:
    name = run.app()
    holding = [one for one in run.world.members.values() if one.seen(_deployment(name)) is not None]
    if not holding:
        return
    member, place = run.chance.choice(holding), _deployment(name)
    run.excuse(name)
    run.fires("strayed")
    held = member.objects[place]
    if run.chance.random() < 0.5:
        del member.objects[place]
    else:
        ready = member.ready_replicas(place, now=run.world.now)
        spec = {**held.manifest["spec"], "replicas": run.chance.choice((0, 1, 9))}
        member.objects[place] = Held({**held.manifest, "spec": spec}, held.generation + 1, run.world.now, ready)
    run.relisted(member.name)


def taken(run: Turmoil) -> None:
    """Users of some members have an object of that name already."""
    name = run.app()
    for member in run.chance.sample(sorted(run.world.members), run.chance.choice((1, 2, 4))):
        run.later(0, 15, lambda member=member: _taken(run, member, _deployment(name)))
    if run.chance.random() < 0.5:
        run.later(5, 40, lambda: run.changes(name, conflict_resolution="Overwrite"))
    run.outage(14, 30)


def _taken(run: Turmoil, member: str, place: Place) -> None:
    there = run.world.members[member]
    if place not in there.objects:
        manifest = run.document(PLAIN % 1, place[3])
        there.objects[place] = Held(manifest, 1, run.world.now)
        there.released.add(place)
        run.fires("taken")


def lied(run: Turmoil) -> None:
    """A member reports of its objects what cannot be."""
    member = run.world.members[run.victim()]
    member.reports = run.chance.choice(LIES)
    run.relisted(member.name)

    def ends() -> None:
        member.reports = None
        run.relisted(member.name)

    run.later(4, 30, ends)
    run.outage(14, 30)


# Works


def works_deleted(run: Turmoil) -> None:
    """A person deletes Works, edits and suspends them."""
    for least, most in ((0, 10), (5, 25)):
        run.later(least, most, lambda: _meddle(run))
    run.outage(14, 30)


def _meddle(run: Turmoil) -> None:
    found: list[Work] = [one for one in run.world.store.list(kinds.WORK) if one.metadata.deletion_timestamp is None]
    for work in run.chance.sample(found, min(3, len(found))):
        _excuse_all(run)
        run.fires("works_deleted")
        how = run.chance.random()
        if how < 0.5:
            run.deletes(work)
        elif how < 0.7:
            edits.put(run.world, work.with_spec(suspend_dispatching=True), work)
        else:
            spec = {**(work.manifest.get("spec") or {}), "replicas": 7}
            edits.put(run.world, work.with_spec(workload=Workload(({**work.manifest, "spec": spec},))), work)


# The store


def refused(run: Turmoil) -> None:
    """The store refuses some objects for a while, in the middle of batches."""

    def begins() -> None:
        known = [ref for ref in run.world.store.objects if ref.kind in (kinds.RESOURCE_BINDING, kinds.WORK)]
        chosen = run.chance.sample(known, min(4, len(known)))
        run.world.store.refused.update(chosen)
        run.later(2, 15, lambda: run.world.store.refused.difference_update(chosen))
        run.fires("refused")

    run.later(0, 20, begins)
    run.outage(14, 30)


def hesitant(run: Turmoil) -> None:
    """Workers rest between what they read and what they ask members for, and others have their turns meanwhile."""
    run.world.hesitates = 0.4
    run.later(15, 40, lambda: setattr(run.world, "hesitates", 0.0))
    run.outage(14, 30)


# Policies


def prioritised(run: Turmoil) -> None:
    """Policies name PriorityClasses, which come, go and come again with another value."""
    names = [f"class-{number}" for number in (1, 2)]
    for name in names:
        run.later(0, 8, lambda name=name: run.classed(name, run.chance.choice((1, 1000))))
        run.later(9, 25, lambda name=name: run.deletes(run.world.store.object(run.class_ref(name))))
        run.later(12, 26, lambda name=name: run.classed(name, run.chance.choice((5, 2000))))
    for app in APPS:
        chosen = SchedulePriority("KubePriorityClass", run.chance.choice(names))
        run.later(0, 12, lambda app=app, chosen=chosen: run.changes(app, schedule_priority=chosen))
    run.outage(14, 30)


def contested(run: Turmoil) -> None:
    """Three policies take a workload from each other, and go in any order."""
    name = run.app()
    for priority in run.chance.sample((3, 5, 9), 3):
        run.later(0, 12, lambda priority=priority: _takes(run, name, priority))


def _takes(run: Turmoil, name: str, priority: int) -> None:
    text = run.chance.choice((*people.POLICIES, *wishes.POLICIES, *features.POLICIES))
    text = text.replace("spec:\n", f"spec:\n  preemption: Always\n  priority: {priority}\n", 1)
    text = text.replace("name: nginx-propagation", f"name: {run.meta('taker').name}")
    if run.chance.random() < people.WIDE:
        text = text.replace("PropagationPolicy", "ClusterPropagationPolicy")
    taker = run.admitted(text, name)
    run.excuse(name)
    run.world.create(taker)
    run.takers.append(taker.ref)

    def gone() -> None:
        run.excuse(name)
        run.deletes(run.world.store.object(taker.ref))

    run.later(1, 30, gone)


# What workloads need


def needs_remade(run: Turmoil) -> None:
    """What workloads need is deleted, and made again."""
    for need in run.chance.sample((*(f"{name}-needed" for name in APPS), "common"), 2):
        run.later(0, 25, lambda need=need: _remade(run, need))
    run.outage(14, 30)


def _remade(run: Turmoil, need: str) -> None:
    _excuse_all(run)
    run.deletes(run.world.store.object(Ref("ConfigMap", "default", need)))
    run.later(0, 8, lambda: run.needs(need))


def namespace_remade(run: Turmoil) -> None:
    """A Namespace is deleted with all that is in it, and made again."""
    run.teams()
    run.later(6, 20, lambda: run.deletes(run.world.store.object(run.team)))
    run.later(7, 30, run.teams)
    if run.chance.random() < 0.5:
        run.later(20, 27, lambda: run.deletes(run.world.store.object(run.team)))
    run.outage(14, 30)


MISHAPS: dict[str, Callable[[Turmoil], None]] = {
    one.__name__: one
    for one in (
        rejoined,
        put_back,
        strayed,
        taken,
        lied,
        works_deleted,
        refused,
        hesitant,
        prioritised,
        contested,
        needs_remade,
        namespace_remade,
    )
}

"""Works: keeps one Work per cluster that shall hold a copy of a binding's template, and no other (semantics 2.9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.meta import Ref, Struct, condition
from controlplane.apimachinery.names import (
    BINDING_FINALIZER,
    CLUSTER_BINDING_FINALIZER,
    DIRECTLY_UNREACHABLE_ANNOTATION,
    cluster_of_execution_namespace,
    is_reserved_namespace,
)
from controlplane.clusters import fence, unjoin
from controlplane.controllers.reads.last_answers import last_answers
from controlplane.controllers.reads.placed import needed_on, works_of
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Guard, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.eviction import directly, leftovers
from controlplane.eviction.purge import purge_mode
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import bindings, matching, works
from controlplane.scheduling.completions import split
from controlplane.settings import Settings

WAIT = timedelta(seconds=30)  # how often a Directly eviction is looked at while its source is still there
LOOK = timedelta(seconds=5)  # for what a copy is there for to be gone; where a cluster waits to be left
BACK = "Back"  # kind of a fan-out origin: a cluster that can be reached again
_FINALIZERS = (BINDING_FINALIZER, CLUSTER_BINDING_FINALIZER)


class Copies(Struct, frozen=True):
    """A binding with its template, the Works there are by cluster, and the clusters it names.

    `needed`: where workloads that take it along (propagateDeps) still have a copy; asked where it is no longer wanted.
    `answered`: when those of the clusters that are fenced last answered.
    """

    subject: Binding
    template: Template | None
    stored: dict[str, Work]
    clusters: dict[str, Cluster]
    needed: frozenset[str] = frozenset()
    answered: dict[str, datetime] = {}


def _binding(old: Binding | None, new: Binding | None) -> Iterator[Ref]:
    """A binding is due when what it asks for changed, not when its status did; one placed nowhere yet asks nothing,
    and so does one that leaves its last cluster gracefully until it is placed again.

    While a copy is still where none is wanted, its status counts too: whether the others are healthy, and the last word
    of the scheduler, decides when that copy may go.
    """
    if new is None or (old is None and not any(_named(new))):
        return
    same = old is not None and old.metadata.generation == new.metadata.generation and _marks(old) == _marks(new)
    if old is not None and same and (_seen(old) == _seen(new) or not _lingers(new)):
        return
    if old is None or _marks(old) != _marks(new) or not _only_leaves(old, new):
        yield new.ref


def _only_leaves(old: Binding, new: Binding) -> bool:
    """Test whether a binding has become one that has no target, and whose Works all stay as they are."""
    before, after = old.spec, new.spec
    if after.clusters or after.required_by or not before.clusters:
        return False
    if any(task.purge_mode == DIRECTLY for task in after.graceful_eviction_tasks):
        return False
    same = replace(before, clusters=(), graceful_eviction_tasks=after.graceful_eviction_tasks) == after
    return same and set(old.clusters_kept()) == set(new.clusters_kept())


def _seen(binding: Binding) -> tuple[Any, ...]:
    return binding.status.scheduler_observed_generation, binding.status.aggregated_status


def _lingers(binding: Binding) -> bool:
    """Test whether a member reports a copy that it shall not have any more."""
    kept = set(binding.clusters_kept())
    return any(item.cluster_name not in kept for item in binding.status.aggregated_status)


def _marks(binding: Binding) -> tuple[Any, ...]:
    metadata = binding.metadata
    return metadata.deletion_timestamp, metadata.annotations.get(DIRECTLY_UNREACHABLE_ANNOTATION)


def _template(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The binding of a template is due when what is sent to members changed; one nobody had claimed had no binding."""
    if old is None or new is None or matching.claimant(old) is None:
        return
    ref = new.ref
    if is_reserved_namespace(ref.namespace) or ref.kind not in PropagatedKinds():
        return
    before, after = old.metadata, new.metadata
    if old.content != new.content or before.labels != after.labels or before.annotations != after.annotations:
        yield bindings.binding_ref(ref)


def _work(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The binding of a Work is due when the Work went or somebody else wrote into it."""
    if old is None or (new is not None and old.metadata.generation == new.metadata.generation):
        return
    yield from works.owner(old, kinds.BINDINGS)


def _cluster(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """Bindings placed on a cluster are due when it comes, goes or is fenced; those with a leftover when it is back."""
    if old is None or new is None or old.terminating != new.terminating or fence.fence_of(old) != fence.fence_of(new):
        yield (new or old).ref  # type: ignore[union-attr]  # one side is there
    if new is not None and new.ready == "True" and (old is None or old.ready != "True"):
        yield Ref(BACK, "", new.metadata.name)


class Works(Controller):
    """Key: a binding. Makes, renews and removes its Works; lets the binding go once none is left."""

    name: ClassVar[str] = "works"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = kinds.BINDINGS
    watches: ClassVar[tuple[Watch, ...]] = (
        *(Watch(kind, _binding) for kind in kinds.BINDINGS),
        Watch("*", _template),
        Watch(kinds.WORK, _work),
        Watch(kinds.CLUSTER, _cluster, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec"),
            **dict.fromkeys(kinds.BINDINGS, ("metadata.finalizers", "status.conditions")),
        }
    )

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Copies | None]:
        found: dict[Ref, Binding] = state.get(refs)
        templates = state.get([bindings.template_ref(one) for one in found.values()])
        stored = works_of(state, found)
        names = {name for one in found.values() for name in _named(one)}
        names |= {_cluster_of(work) for own in stored.values() for work in own}
        clusters = state.get([Ref(kinds.CLUSTER, "", name) for name in sorted(names)])
        by_name: dict[str, Cluster] = {ref.name: cluster for ref, cluster in clusters.items()}
        answered = last_answers(state, by_name.values())
        needed = needed_on(state, [one for ref, one in found.items() if _is_left(one, stored.get(str(ref), ()))])
        snapshots: list[Copies | None] = []
        for ref in refs:
            binding = found.get(ref)
            if binding is None:
                snapshots.append(None)
                continue
            own = {_cluster_of(work): work for work in stored.get(str(ref), ())}
            near = {name: by_name[name] for name in (*_named(binding), *own) if name in by_name}
            template, still = templates.get(bindings.template_ref(binding)), frozenset(needed.get(ref, ()))
            heard = {name: answered[name] for name in near if name in answered}
            snapshots.append(Copies(binding, template, own, near, still, heard))
        return snapshots

    def decide(self, snapshot: Copies, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        binding = snapshot.subject
        if binding.metadata.deletion_timestamp is not None:
            return _leave(snapshot, settings, now=now)
        if snapshot.template is None:
            return NOTHING  # controllers.policies decides what becomes of the binding
        changes, left = _orphans(snapshot, now=now)
        found = directly.directly_sources(
            binding, snapshot.stored, snapshot.clusters, settings, answered=snapshot.answered, now=now
        )
        waiting = any(source.waits for source in found)
        changes += _wanted(snapshot, snapshot.template, frozen=waiting, now=now)
        conditions, events = _told(snapshot, found, now=now)
        again = directly.next_check_at(found, binding, pause=WAIT, now=now)
        removes = any(isinstance(one, Delete) for one in changes)
        return Decision(
            changes=(*changes, *conditions),
            events=(*events, *_synced(binding, snapshot.template, changes)),
            guards=(Guard(binding.ref, binding.metadata.generation),) if removes else (),
            wake_at=min(filter(None, (again, None if left is None else now + left)), default=None),
            reason="SyncWork",
        )

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings placed on a cluster, namespaced ones first; the cursor is "position|namespace/name".

        For a cluster that came back, return the bindings that left a copy there.
        """
        if origin.kind == BACK:
            refs = state.refs_by_index(kinds.WORK, "leftover", origin.name, after=cursor_after(after), limit=limit)
            left = state.get(refs).values()
            return [one for work in left for one in works.owner(work, kinds.BINDINGS)], page(refs, limit=limit)[1]
        step, _, place = after.partition("|")
        for position in range(int(step or 0), len(kinds.BINDINGS)):
            kind = kinds.BINDINGS[position]
            refs = state.refs_by_index(kind, "placed", origin.name, after=cursor_after(place), limit=limit)
            found, cursor = page(refs, limit=limit)
            if cursor is not None:
                return found, f"{position}|{cursor}"
            if found and position + 1 < len(kinds.BINDINGS):
                return found, f"{position + 1}|"
            if found:
                return found, None
            place = ""
        return [], None


def _named(binding: Binding) -> Iterable[str]:
    spec = binding.spec
    yield from (one.name for one in works.targets(binding))
    yield from (task.from_cluster for task in spec.graceful_eviction_tasks)


def _cluster_of(work: Work) -> str:
    return cluster_of_execution_namespace(work.metadata.namespace)


def _is_left(binding: Binding, held: Iterable[Work]) -> bool:
    """Test whether a copy is on a cluster that shall not have one any more."""
    kept = set(binding.clusters_kept())
    return any(_cluster_of(work) not in kept for work in held)


def _orphans(snapshot: Copies, *, now: datetime) -> tuple[list[Put | Delete], timedelta | None]:
    """Return what becomes of Works no cluster shall hold any more, and when to look again at those that wait: leftovers
    for healthy copies, and what goes along with a workload for that to be gone."""
    binding, changes, left = snapshot.subject, list[Put | Delete](), list[timedelta]()
    kept = set(binding.clusters_kept())
    for name, work in snapshot.stored.items():
        if name in kept or work.metadata.deletion_timestamp is not None:
            continue
        cluster, task = snapshot.clusters.get(name), binding.spec.task(name)
        if cluster is not None and cluster.terminating and unjoin.keeps(cluster):
            continue  # its copy is released, not removed: controllers.unjoin
        gone = _is_gone(cluster) or (task is not None and task.purge_mode == DIRECTLY)
        if not gone and cluster is not None and cluster.ready != "True":
            changes += _marked(work)
        elif not gone and name in snapshot.needed:
            left.append(LOOK)
        elif gone or not _may_be_last(work, snapshot) or leftovers.may_be_removed(binding, name, snapshot.clusters):
            changes.append(deleting(work, now=now))
        elif cluster is not None and cluster.terminating:
            left.append(LOOK)
        else:  # that the others' clusters are back does not say that their copies are
            changes += _marked(work)
            left.append(WAIT)
    return changes, min(left, default=None)


def _marked(work: Work) -> list[Put]:
    """Return what makes a Work a leftover; nothing where it is one."""
    marked = leftovers.as_leftover(work)
    return [Put(marked, work)] if marked is not work else []


def _may_be_last(work: Work, snapshot: Copies) -> bool:
    """Test whether a copy nobody wants waits for healthy ones: no eviction has seen to that before (fault 33, D20), or
    a cluster that has, or is losing, another copy went away since (I1)."""
    own, clusters = snapshot.clusters.get(_cluster_of(work)), snapshot.clusters
    if leftovers.is_leftover(work) or (own is not None and own.terminating):
        return True
    others = (clusters.get(name) for name in snapshot.subject.clusters_kept())
    return any(one is None or not one.answers for one in others)


def _is_gone(cluster: Cluster | None) -> bool:
    """Test whether nothing on a cluster is to be waited for: it is gone, or leaves by force or without an answer."""
    if cluster is None:
        return True
    return cluster.terminating and (unjoin.forced(cluster) or cluster.ready != "True")


def _wanted(snapshot: Copies, template: Template, *, frozen: bool, now: datetime) -> list[Put | Delete]:
    """Return what makes the Works of the targets as they shall be. `frozen`: nothing new starts anywhere (D14)."""
    binding, changes = snapshot.subject, list[Put | Delete]()
    targets = list(works.targets(binding))
    if not targets:
        return changes
    shares = split(binding, template, targets)
    common = works.rendering(binding, template)
    for target in targets:
        stored, cluster = snapshot.stored.get(target.name), snapshot.clusters.get(target.name)
        if stored is None and (frozen or cluster is None or cluster.terminating):
            continue
        if stored is not None and stored.metadata.deletion_timestamp is not None:
            continue  # due again once it is gone
        place = _no_more_than(target, stored, binding) if frozen else _with_rest(target, stored, binding)
        work = works.render(common, place, completions=shares.get(target.name), now=now)
        if stored is None:
            changes.append(Put(work, None))
            continue
        renewed = leftovers.without_leftover_mark(works.updated(stored, work))
        before, after = _present(stored, binding), _present(renewed, binding)
        renewed = leftovers.with_reduction_time(renewed, before=before, after=after, now=now)
        if renewed is not stored:
            changes.append(Put(renewed, stored))
    return changes


def _with_rest(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target with the replicas that go elsewhere and stay until they run there: those of a failback, and those
    it has while a copy leaves another cluster, as far as the workload still asks for so many."""
    rest = binding.spec.kept_beside(target.name)
    if rest:
        return replace(target, replicas=target.replicas + rest)
    present = _present(stored, binding) if binding.spec.graceful_eviction_tasks else None
    kept = 0 if present is None else min(present, binding.spec.replicas)
    return replace(target, replicas=kept) if kept > target.replicas else target


def _no_more_than(target: TargetCluster, stored: Work | None, binding: Binding) -> TargetCluster:
    """Return a target that does not take over replicas before the old copy is gone."""
    present = _present(stored, binding)
    return target if present is None or present >= target.replicas else replace(target, replicas=present)


def _present(stored: Work | None, binding: Binding) -> int | None:
    """Return how many replicas of a Divided workload a stored Work asks for; None where that is no question."""
    placement = binding.spec.placement
    if stored is None or placement is None or not placement.divided or not binding.workload:
        return None
    manifest = stored.manifest
    ask = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).replicas
    return None if ask is None else ask(manifest).replicas


def _synced(binding: Binding, template: Template, changes: Sequence[Put | Delete]) -> Iterator[Event]:
    """Yield the Events of a binding that gets a Work; a Work that is only updated, as by each scaling, has none."""
    if any(isinstance(one, Put) and one.old is None for one in changes):
        place = binding.metadata
        shown = f"{place.namespace}/{place.name}" if place.namespace else place.name
        message = f"Sync work of {binding.kind}({shown}) successful."
        yield Event(binding, "SyncWorkSucceed", message, step=True)
        yield Event(template, "SyncWorkSucceed", message, step=True)


def _told(
    snapshot: Copies, found: Sequence[directly.DirectlySource], *, now: datetime
) -> tuple[list[Put], list[Event]]:
    """Return the binding's condition DirectlyWaiting where it is news, and Events, again and again while it waits."""
    binding = snapshot.subject
    conditions = directly.with_directly_waiting(binding, found, now=now)
    said, before = (condition(one, directly.DIRECTLY_WAITING) for one in (conditions, binding.status.conditions))
    if said is None or (said == before and said.status != "True"):
        return [], []
    reason = "DirectlyWaiting" if said.status == "True" else f"Directly{said.reason}"
    event = Event(binding, reason, said.message, warning=said.reason != directly.SOURCE_GONE)
    return [Put(binding.with_status(conditions=conditions), binding)] if said != before else [], [event]


def _leave(snapshot: Copies, settings: Settings, *, now: datetime) -> Decision:
    """The binding is being deleted: its Works go first, then its finalizer.

    Where somebody has made the template anew it does not wait for clusters nobody can reach: the new binding is placed
    where it fits, and what is there goes when they are back, unless it is wanted there again.
    """
    binding = snapshot.subject
    present = snapshot.stored.values()
    waited = now - (binding.metadata.deletion_timestamp or now)
    wake_at = now + min(max(waited, LOOK), WAIT)
    changes = tuple(deleting(work, now=now) for work in present if work.metadata.deletion_timestamp is None)
    if changes:
        return Decision(changes=changes, wake_at=wake_at, reason="CleanupWork")
    succeeded = _succeeded(snapshot)
    held = [name for name in snapshot.stored if not (succeeded and _is_left_behind(snapshot, name, settings, now=now))]
    if held:
        return Decision(events=(_cleanup_waits(snapshot, held),) if waited >= WAIT else (), wake_at=wake_at)
    rest = tuple(one for one in binding.metadata.finalizers if one not in _FINALIZERS)
    freed = binding.with_meta(finalizers=rest)
    return Decision(changes=(Put(freed, binding),), reason="CleanupWork") if freed is not binding else NOTHING


def _succeeded(snapshot: Copies) -> bool:
    """Test whether another template of the same name waits for the binding to go."""
    template = snapshot.template
    if template is None or template.metadata.deletion_timestamp is not None:
        return False
    return template.metadata.uid != snapshot.subject.spec.resource.uid


def _is_left_behind(snapshot: Copies, name: str, settings: Settings, *, now: datetime) -> bool:
    """Test whether a copy on a cluster nobody can reach keeps no new one from starting: with purge mode Directly it
    does, until somebody says that the cluster is down (D14)."""
    cluster = snapshot.clusters.get(name)
    if cluster is not None and cluster.answers:
        return False
    if purge_mode(snapshot.subject, settings) != DIRECTLY or settings.directly_unreachable == "Proceed":
        return True
    return fence.in_force(cluster, answered_at=snapshot.answered.get(name), now=now) is not None


def _cleanup_waits(snapshot: Copies, held: Sequence[str]) -> Event:
    """Return what a binding says that is not gone yet, again and again."""
    away = [name for name in held if (one := snapshot.clusters.get(name)) is not None and not one.answers]
    why = f"; {', '.join(away)} cannot be reached" if away else ""
    message = f"the copies on {', '.join(held)} are still to be removed{why}: see their Works"
    return Event(snapshot.subject, "CleanupWaiting", message, warning=True)

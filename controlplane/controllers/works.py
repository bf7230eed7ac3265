"""Works: keeps one Work for each cluster that a binding is placed on, and removes all others [work-rendering].

A Work holds the manifest that is applied to one member cluster. A copy is what runs there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Ref, Struct, condition
from controlplane.apimachinery.names import (
    BINDING_FINALIZER,
    CLUSTER_BINDING_FINALIZER,
    cluster_of_execution_namespace,
    is_reserved_namespace,
)
from controlplane.clusters import fence, health, unjoin
from controlplane.controllers.reads import override_policies
from controlplane.controllers.reads.bindings_on_clusters import clusters_where_needed, works_of
from controlplane.controllers.reads.dependents import clusters_given_up_later
from controlplane.controllers.reads.interpreted_bindings import RULES_CHANGED, bindings_of_kind, is_rules
from controlplane.controllers.reads.last_answers import last_answers
from controlplane.controllers.reads.legible_clusters import legible_clusters
from controlplane.controllers.reads.namespace_quotas import quotas_of
from controlplane.controllers.reads.propagated_kinds import PropagatedKinds
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Delete, Event, Guard, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.eviction import directly, last_copy, leftovers, replacements
from controlplane.eviction.purge import is_eviction, purge_mode
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.federated_quota import ENFORCEMENT_GATE, FederatedResourceQuota
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import bindings, job_shares, matching, refused_requests, work_replicas, works
from controlplane.propagation.concerned_works import concerns_works, named_clusters
from controlplane.propagation.override_run import OverrideRun, differs
from controlplane.propagation.overrides import OverrideFailed
from controlplane.scheduling.completions import split
from controlplane.settings import Settings

SLOW_CHECK = timedelta(seconds=30)  # for old copies of Directly evictions, leftovers and deletions that take long
QUICK_CHECK = timedelta(seconds=5)  # while a copy waits for a workload that needs it, or a cluster is being unjoined
BACK = "Back"  # kind of a fan-out origin: a cluster that can be reached again
_FINALIZERS = (BINDING_FINALIZER, CLUSTER_BINDING_FINALIZER)


class WorksSnapshot(Struct, frozen=True):
    """A binding with its template, its existing Works by cluster, and the clusters that either of them names.

    `needed`: clusters where a workload that needs this binding still has a copy. It is read only if the binding has a
    Work on a cluster it is not placed on. `answers`: of fenced clusters, of those for which new copies wait for a
    limited time, and of all if an old copy may be removed. `overrides`: the override policies that may change the
    copies. `quotas`: those of its namespace, if they are enforced.
    """

    subject: Binding
    template: Template | None
    stored: dict[str, Work]
    clusters: dict[str, Cluster]
    needed: frozenset[str] = frozenset()
    answers: directly.Answers = directly.Answers()
    overrides: tuple[OverridePolicy, ...] = ()
    quotas: Sequence[FederatedResourceQuota] = ()


def _binding_changed(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    """A binding is due when its spec changed, if the change concerns its Works, or when the scheduler has placed it and
    a copy leaves Directly."""
    if new is None or is_eviction(old, new):
        return ()
    leaves = any(task.purge_mode == DIRECTLY for task in new.spec.graceful_eviction_tasks)
    waited = leaves and old is not None and replacements.waits_for_place(old)
    placed = waited and not replacements.waits_for_place(new)
    return (new.ref,) if placed or concerns_works(old, new) else ()


def _binding_evicted(old: Binding | None, new: Binding | None) -> Iterable[Ref]:
    return (new.ref,) if new is not None and is_eviction(old, new) and concerns_works(old, new) else ()


def _template_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The binding of a template is due when the content that is sent to members changed.

    A template that no policy claims may have a binding as well, because a workload needs it [dependency-propagation].
    When a policy claims a template, its binding is created or changed with it; that makes the binding due.
    """
    if old is None or new is None or (matching.claimant(old) is None and matching.claimant(new) is not None):
        return
    ref = new.ref
    if is_reserved_namespace(ref.namespace) or ref.kind not in PropagatedKinds():
        return
    before, after = old.metadata, new.metadata
    if new.has_other_content_than(old) or before.labels != after.labels or before.annotations != after.annotations:
        yield bindings.binding_ref(ref)


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """The binding of a Work is due when the Work was removed or its spec was edited."""
    if old is None or (new is not None and old.metadata.generation == new.metadata.generation):
        return
    yield from works.owner(old, kinds.BINDINGS)


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """The bindings placed on a cluster are due when it joins, leaves, or its fence changes.

    The bindings with a leftover on the cluster are due when it becomes Ready.
    """
    if old is None or new is None or old.terminating != new.terminating or fence.fence_of(old) != fence.fence_of(new):
        yield (new or old).ref  # type: ignore[union-attr]  # one side is there
    if new is not None and new.ready == "True" and (old is None or old.ready != "True"):
        yield Ref(BACK, "", new.metadata.name)


class Works(Controller):
    """Key: a binding. Creates, updates and deletes its Works, and removes the finalizer of a deleted binding."""

    name: ClassVar[str] = "works"
    group: ClassVar[str] = "scheduling"
    creates_separately: ClassVar[bool] = True
    keys: ClassVar[tuple[str, ...]] = kinds.BINDINGS
    watches: ClassVar[tuple[Watch, ...]] = (
        *(Watch(kind, _binding_changed) for kind in kinds.BINDINGS),
        *(Watch(kind, _binding_evicted, bundled=True) for kind in kinds.BINDINGS),
        Watch("*", _template_changed),
        Watch(kinds.WORK, _work_changed),
        Watch(kinds.CLUSTER, _cluster_changed, fan_out=True),
        *(Watch(kind, override_policies.policy_changed, fan_out=True) for kind in kinds.OVERRIDE_POLICIES),
        Watch(kinds.CLUSTER, override_policies.cluster_changed, fan_out=True),
        *RULES_CHANGED,
    )
    owns: ClassVar[Ownership] = Ownership(
        {
            kinds.WORK: ("create", "delete", "metadata.labels", "metadata.annotations", "spec"),
            **dict.fromkeys(kinds.BINDINGS, ("metadata.finalizers", "status.conditions")),
        }
    )

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[WorksSnapshot | None]:
        return self.load(state, refs, enforcing=settings.gate(ENFORCEMENT_GATE))

    def load(self, state: State, refs: Sequence[Ref], *, enforcing: bool = False) -> Sequence[WorksSnapshot | None]:
        """Return the snapshots. `enforcing`: with the quotas of their namespaces."""
        found: dict[Ref, Binding] = state.get(refs)
        templates = state.get([bindings.template_ref(binding) for binding in found.values()])
        stored = works_of(state, found)
        names = {name for binding in found.values() for name in named_clusters(binding)}
        names |= {_cluster_of(work) for own in stored.values() for work in own}
        by_name = legible_clusters(state, names)
        removing = [binding for ref, binding in found.items() if _has_orphan(binding, stored.get(str(ref), ()))]
        observed = by_name if removing else _limited(found.values(), stored, by_name)
        answers = last_answers(state, by_name.values(), observed=observed)
        overrides = override_policies.policies_of(state, templates.values())
        limits = quotas_of(state, found) if enforcing else {}
        needed = clusters_where_needed(state, removing)
        given_up = [one for one in removing if last_copy.is_supporting(one, stored[str(one.ref)])]
        for ref, places in clusters_given_up_later(state, given_up).items():
            needed.setdefault(ref, set()).update(places)
        snapshots: list[WorksSnapshot | None] = []
        for ref in refs:
            binding = found.get(ref)
            if binding is None:
                snapshots.append(None)
                continue
            own = {_cluster_of(work): work for work in stored.get(str(ref), ())}
            named = {name: by_name[name] for name in (*named_clusters(binding), *own) if name in by_name}
            source, needing = bindings.template_ref(binding), frozenset(needed.get(ref, ()))
            policies, quotas = overrides.get(source, ()), limits.get(ref.namespace, ())
            snapshots.append(
                WorksSnapshot(binding, templates.get(source), own, named, needing, answers, policies, quotas)
            )
        return snapshots

    def decide(self, snapshot: WorksSnapshot, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        binding = snapshot.subject
        if binding.metadata.deletion_timestamp is not None:
            return _clean_up(snapshot, settings, now=now)
        if snapshot.template is None:
            return NOTHING  # controllers.policies deletes the binding
        sources = directly.directly_sources(
            binding, snapshot.stored, snapshot.clusters, settings, answers=snapshot.answers, now=now
        )
        waiting, run = any(source.waits for source in sources), OverrideRun(snapshot.overrides, snapshot.clusters)
        places = snapshot.stored, snapshot.clusters
        prevented = waiting and replacements.are_prevented(binding, snapshot.template, *places, run, now=now)
        changes, orphan_check = _orphans(snapshot, prevented=prevented, now=now)
        changes += _work_updates(snapshot, snapshot.template, run, frozen=waiting, now=now)
        changes = [change for change in changes if not _waits_for_repair(snapshot, change)]
        conditions, events = _conditions(snapshot, sources, run, now=now)
        again = directly.next_check_at(sources, pause=SLOW_CHECK, now=now)
        removes = any(isinstance(change, Delete) for change in changes)
        return Decision(
            changes=(*changes, *conditions),
            events=(*events, *_sync_events(binding, snapshot.template, changes, run)),
            guards=(Guard(binding.ref, binding.metadata.generation),) if removes else (),
            wake_at=min(filter(None, (again, None if orphan_check is None else now + orphan_check)), default=None),
            reason="SyncWork",
        )

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the bindings placed on a cluster, namespaced ones first. The cursor is "position|namespace/name".

        For a cluster that can be reached again, return the bindings that have a leftover there. For an override policy
        and for changed facts of a cluster, see `override_policies.bindings_of`.
        """
        if origin.kind == override_policies.TARGET or origin.kind.startswith(override_policies.SELECTION):
            return override_policies.bindings_of(state, origin, after=after, limit=limit)
        if is_rules(origin):
            of_kind, following = bindings_of_kind(state, origin, after=after, limit=limit)
            return [binding.ref for binding in of_kind], following
        if origin.kind == BACK:
            refs = state.refs_by_index(kinds.WORK, "leftover", origin.name, after=cursor_after(after), limit=limit)
            leftover = state.get(refs).values()
            return [owner for work in leftover for owner in works.owner(work, kinds.BINDINGS)], page(refs, limit=limit)[
                1
            ]
        step, _, cursor_in_kind = after.partition("|")
        for position in range(int(step or 0), len(kinds.BINDINGS)):
            kind = kinds.BINDINGS[position]
            refs = state.refs_by_index(kind, "placed", origin.name, after=cursor_after(cursor_in_kind), limit=limit)
            found, cursor = page(refs, limit=limit)
            if cursor is not None:
                return found, f"{position}|{cursor}"
            if found and position + 1 < len(kinds.BINDINGS):
                return found, f"{position + 1}|"
            if found:
                return found, None
            cursor_in_kind = ""
        return [], None


def _cluster_of(work: Work) -> str:
    return cluster_of_execution_namespace(work.metadata.namespace)


def _limited(
    found: Iterable[Binding], stored: Mapping[str, Sequence[Work]], clusters: Mapping[str, Cluster]
) -> set[str]:
    """Return the clusters that do not answer, and for which new copies of some binding wait for a limited time."""
    return {
        name
        for binding in found
        if directly.proceed_after(binding) is not None
        for name in (*named_clusters(binding), *(_cluster_of(work) for work in stored.get(str(binding.ref), ())))
        if name in clusters and not clusters[name].answers
    }


def _has_orphan(binding: Binding, held: Iterable[Work]) -> bool:
    """Test whether a binding has a Work on a cluster where it wants no copy any more."""
    kept = set(binding.clusters_kept())
    return any(_cluster_of(work) not in kept for work in held)


def _orphans(snapshot: WorksSnapshot, *, prevented: bool, now: datetime) -> tuple[list[Put | Delete], timedelta | None]:
    """Return the changes of Works on clusters where no copy is wanted any more, and how long to wait for the next look.

    A Work is deleted, marked as a leftover, or stays for now: because a workload that needs it has still a copy there,
    because the copy may be the last healthy one, or because it is left Directly and no new copy can be made
    (`prevented`). None: no Work waits for a look. For one that is left Directly see `directly.next_check_at`. A cluster
    whose last probe failed counts as lost.
    """
    binding, changes, waits = snapshot.subject, list[Put | Delete](), list[timedelta]()
    kept = set(binding.clusters_kept())
    failing = {name for name, row in snapshot.answers.observations.items() if health.fails(row)}
    for name, work in snapshot.stored.items():
        if name in kept or work.metadata.deletion_timestamp is not None:
            continue
        places = {one: cluster for one, cluster in snapshot.clusters.items() if one == name or one not in failing}
        cluster, task = snapshot.clusters.get(name), binding.spec.task(name)
        if cluster is not None and cluster.terminating and unjoin.keeps(cluster):
            continue  # controllers.unjoin releases the copy instead of removing it
        if cluster is None or _needs_no_wait(cluster):
            changes += _removal(work, now=now)
        elif task is not None and task.purge_mode == DIRECTLY:
            changes += [] if prevented else _removal(work, now=now)
        elif cluster.ready != "True":
            changes += _mark_leftover(work)
        elif name in snapshot.needed:
            waits.append(QUICK_CHECK)
        elif not last_copy.may_be_last(binding, work, places) or leftovers.may_be_removed(binding, name, places):
            changes += _removal(work, now=now)
        elif cluster.terminating:
            waits.append(QUICK_CHECK)
        else:  # the other clusters may answer again before their copies run again
            changes += _mark_leftover(work)
            waits.append(SLOW_CHECK)
    return changes, min(waits, default=None)


def _waits_for_repair(snapshot: WorksSnapshot, change: Put | Delete) -> bool:
    """Test whether a change is about a Work of a cluster whose document is damaged. It is due again once a person has
    repaired it."""
    work: Any = change.new if isinstance(change, Put) else change.old
    cluster = snapshot.clusters.get(_cluster_of(work))
    return cluster is not None and bool(cluster.unreadable)


def _removal(work: Work, *, now: datetime) -> list[Put | Delete]:
    """Return the writes that remove a copy from a cluster where it is not wanted any more, although its template stays.

    `preserveResourcesOnDeletion` is about copies of a deleted template. A copy that has moved must not run on
    [member-writes].
    """
    kept = work.spec.preserve_resources_on_deletion is True
    changed = [Put(work.with_spec(preserve_resources_on_deletion=False), work)] if kept else []
    return [*changed, deleting(work, now=now)]


def _mark_leftover(work: Work) -> list[Put]:
    """Return the write that marks a Work as a leftover; empty if it is one already."""
    marked = leftovers.as_leftover(work)
    return [Put(marked, work)] if marked is not work else []


def _needs_no_wait(cluster: Cluster) -> bool:
    """Test whether a copy needs no check before its removal: its cluster is unjoined by force or while it is not
    Ready."""
    return cluster.terminating and (unjoin.forced(cluster) or cluster.ready != "True")


def _work_updates(
    snapshot: WorksSnapshot, template: Template, run: OverrideRun, *, frozen: bool, now: datetime
) -> list[Put | Delete]:
    """Return the writes that create and update the Works of the clusters that a binding is placed on.

    `frozen`: no copy may start or grow, because an old copy may still run on a cluster that cannot be reached
    [directly-unreachable]. That holds too for a copy that a fence has let start, if it has not. A copy for which an
    override policy fails stays as it is [override-policies]. So does the content of all copies while quotas have no
    room for the requests of the template [federated-quotas].
    """
    binding, changes = snapshot.subject, list[Put | Delete]()
    targets = list(works.targets(binding))
    if not targets:
        return changes
    shares = split(binding, template, targets, job_shares.begun(snapshot.stored, template))
    common = works.rendering(binding, template)
    are_refused = refused_requests.are_refused(binding, template, snapshot.quotas)
    unsent = work_replicas.kept_for_unsent(binding, snapshot.stored)
    for target in targets:
        stored, cluster = snapshot.stored.get(target.name), snapshot.clusters.get(target.name)
        if stored is None and (frozen or cluster is None or cluster.terminating):
            continue
        if cluster is None and snapshot.overrides:
            continue  # the cluster is gone, and policies may depend on its labels
        if frozen and works.is_divided(binding) and work_replicas.asked_by(stored, binding) is None:
            continue  # the copy might grow
        applied = (
            work_replicas.not_more_than_before(target, stored, binding, cluster)
            if frozen
            else work_replicas.with_kept(target, stored, binding, unsent=unsent.get(target.name, 0))
        )
        override = run if snapshot.overrides else None
        try:
            work = works.render(common, applied, completions=shares.get(target.name), override=override, now=now)
        except OverrideFailed:
            continue
        work = job_shares.noted(work, stored, template, share=shares.get(target.name))
        if are_refused:
            accepted = stored or _copy_elsewhere(snapshot)
            work = refused_requests.with_accepted_content(
                work, accepted, replicas=applied.replicas, revise=common.revise
            )
        if stored is not None and stored.metadata.deletion_timestamp is not None:
            marked = leftovers.as_wanted_again(stored, binding)
            changes += [Put(marked, stored)] if marked is not stored else []
            continue  # the binding is due again once the Work is removed
        if stored is None:
            changes.append(Put(work, None))
            continue
        if frozen and work_replicas.waits_to_start(stored, binding):
            work = work_replicas.held_back(work)
        renewed = leftovers.without_leftover_mark(works.updated(stored, work))
        before, after = work_replicas.asked_by(stored, binding), work_replicas.asked_by(renewed, binding)
        renewed = leftovers.with_reduction_time(renewed, before=before, after=after, now=now)
        if renewed is not stored:
            changes.append(Put(renewed, stored))
    return changes


def _copy_elsewhere(snapshot: WorksSnapshot) -> Work | None:
    """Return a copy whose content a new copy on another cluster may get. None: there is none, or override policies
    change the content for each cluster. Then the template is taken: a workload that has lost its cluster does not wait.
    """
    copies = [] if snapshot.overrides else [work for _, work in sorted(snapshot.stored.items())]
    return next((work for work in copies if not leftovers.is_leftover(work)), None)


def _sync_events(
    binding: Binding, template: Template, changes: Sequence[Put | Delete], run: OverrideRun
) -> Iterator[Event]:
    """Yield the Events of a binding that gets a new Work, and of override policies that are applied for the first time.

    An update of a Work, for example by scaling, yields none.
    """
    if any(isinstance(change, Put) and change.old is None for change in changes):
        place = binding.metadata
        shown = f"{place.namespace}/{place.name}" if place.namespace else place.name
        message = f"Sync work of {binding.kind}({shown}) successful."
        yield Event(binding, "SyncWorkSucceed", message, step=True)
        yield Event(template, "SyncWorkSucceed", message, step=True)
    written = [change for change in changes if isinstance(change, Put) and isinstance(change.new, Work)]
    changed = {_cluster_of(put.new) for put in written if differs(put.new, put.old)}  # type: ignore[arg-type]
    yield from run.succeeded(template, changed)


def _conditions(
    snapshot: WorksSnapshot, sources: Sequence[directly.DirectlySource], run: OverrideRun, *, now: datetime
) -> tuple[list[Put], list[Event]]:
    """Return the write of the conditions about waiting copies and override policies, if they changed, and the Events.

    The Event about waiting copies is repeated while they wait.
    """
    binding, events = snapshot.subject, list[Event]()
    conditions = directly.with_directly_waiting(binding, sources, now=now)
    waiting = condition(conditions, directly.DIRECTLY_WAITING)
    before = condition(binding.status.conditions, directly.DIRECTLY_WAITING)
    if waiting is not None and (waiting != before or waiting.status == "True"):
        reason = "DirectlyWaiting" if waiting.status == "True" else f"Directly{waiting.reason}"
        events.append(Event(binding, reason, waiting.message, warning=waiting.reason != directly.SOURCE_GONE))
    reported = run.conditions(conditions, now=now)
    if reported != conditions and snapshot.template is not None:
        events += run.failed((binding, snapshot.template))
    if reported == binding.status.conditions:
        return [], events
    return [Put(binding.with_status(conditions=reported), binding)], events


def _clean_up(snapshot: WorksSnapshot, settings: Settings, *, now: datetime) -> Decision:
    """Delete the Works of a deleted binding, then remove its finalizer once they are gone.

    If the template was created again, the binding does not wait for clusters that cannot be reached. The new binding is
    then placed where it fits. The old copies are removed when their clusters return, unless they are wanted again.
    """
    binding = snapshot.subject
    waited = now - (binding.metadata.deletion_timestamp or now)
    wake_at = now + min(max(waited, QUICK_CHECK), SLOW_CHECK)
    changes = [change for name in snapshot.stored for change in _cleaned_up(snapshot, name, now=now)]
    if changes:
        return Decision(changes=tuple(changes), wake_at=wake_at, reason="CleanupWork")
    recreated = _template_recreated(snapshot)
    held = [name for name in snapshot.stored if not (recreated and _may_stay_behind(snapshot, name, settings, now=now))]
    if held:
        return Decision(events=(_cleanup_waits(snapshot, held),) if waited >= SLOW_CHECK else (), wake_at=wake_at)
    rest = tuple(name for name in binding.metadata.finalizers if name not in _FINALIZERS)
    freed = binding.with_meta(finalizers=rest)
    return Decision(changes=(Put(freed, binding),), reason="CleanupWork") if freed is not binding else NOTHING


def _cleaned_up(snapshot: WorksSnapshot, name: str, *, now: datetime) -> list[Put | Delete]:
    """Return the writes that delete a Work of a deleted binding; empty if it is being deleted already.

    `preserveResourcesOnDeletion` keeps no copy that has moved, if all wanted copies are healthy: it would run twice.
    """
    work, binding = snapshot.stored[name], snapshot.subject
    if work.metadata.deletion_timestamp is not None:
        return []
    before = binding.with_meta(generation=binding.metadata.generation - 1)  # the scheduler does not see the deletion
    wanted = any(target.name == name for target in works.targets(binding))
    moved = not wanted and leftovers.may_be_removed(before, name, snapshot.clusters)
    return _removal(work, now=now) if moved else [deleting(work, now=now)]


def _template_recreated(snapshot: WorksSnapshot) -> bool:
    """Test whether a new template of the same name waits until the binding of the old one is gone."""
    template = snapshot.template
    if template is None or template.metadata.deletion_timestamp is not None:
        return False
    return template.metadata.uid != snapshot.subject.spec.resource.uid


def _may_stay_behind(snapshot: WorksSnapshot, name: str, settings: Settings, *, now: datetime) -> bool:
    """Test whether the new binding may start although this copy is on a cluster that cannot be reached.

    With purge mode Directly it waits as a new copy does after an eviction [directly-unreachable].
    """
    binding, cluster = snapshot.subject, snapshot.clusters.get(name)
    if cluster is not None and cluster.answers:
        return False
    if purge_mode(binding, settings) != DIRECTLY:
        return True
    fencing = fence.in_force(cluster, answered_at=snapshot.answers.last.get(name), now=now)
    since, observed = binding.metadata.deletion_timestamp, snapshot.answers.observations.get(name)
    ends = directly.wait_ends(binding, observed, settings, since=since, now=now)
    return bool(directly.reason_to_proceed(name, binding, fencing, settings, ends=ends, now=now))


def _cleanup_waits(snapshot: WorksSnapshot, held: Sequence[str]) -> Event:
    """Return the Event of a deleted binding whose copies are still to be removed from these clusters."""
    away = [name for name in held if (cluster := snapshot.clusters.get(name)) is not None and not cluster.answers]
    why = f"; {', '.join(away)} cannot be reached" if away else ""
    message = f"the copies on {', '.join(held)} are still to be removed{why}: see their Works"
    return Event(snapshot.subject, "CleanupWaiting", message, warning=True)

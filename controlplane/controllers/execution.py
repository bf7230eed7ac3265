"""Execution: applies the manifest of a Work to its member, and removes the object with the Work [member-writes]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.meta import Condition, Ref, Struct, condition, with_condition
from controlplane.apimachinery.names import (
    CONFLICT_RESOLUTION_ANNOTATION,
    DRIFT_ANNOTATION,
    HELD_ANNOTATION,
    REPLICAS_HELD_ANNOTATION,
    WANTED_AGAIN_ANNOTATION,
    WORK_FINALIZER,
    cluster_of_execution_namespace,
)
from controlplane.clusters import changed_objects, lost_objects
from controlplane.clusters.changed_objects import is_changed, is_put_back
from controlplane.clusters.held_changes import (
    is_removal_held,
    replicas_held,
    with_removal_held,
    with_replicas_held,
)
from controlplane.clusters.lost_objects import OBJECT_LOST
from controlplane.clusters.questions import NOT_OURS, Answer, Compare, Discard, Ensure, endpoint_of
from controlplane.clusters.questions import REMOVING as STILL_REMOVING
from controlplane.controllers.reads.late_removals import late_removals
from controlplane.controllers.reads.member_access import check_readable, connection_fields, credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction import leftovers
from controlplane.kinds.cluster import PULL, Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import (
    APPLIED,
    APPLIED_FAILED,
    APPLIED_SUCCESSFUL,
    CHANGE_GONE,
    CLEANUP_FAILED,
    DISPATCHING,
    DRIFTED,
    FINISHED,
    NAMESPACE_USED,
    OBSERVED,
    PUT_BACK,
    REMOVED,
    REMOVING,
    REPLICAS_KEPT,
    RETAINED,
    Work,
)
from controlplane.propagation import works
from controlplane.settings import Settings

RETRY = timedelta(seconds=2)
LONGEST_RETRY = timedelta(seconds=60)
REMOVAL_LIMIT = timedelta(seconds=60)  # a removal that takes longer is reported as a failure; Namespaces take long
NAMESPACE_CHECK = timedelta(hours=1)  # until a Namespace is checked again that the member had before
AGENT_CHECK = timedelta(seconds=5)  # until a removal is checked that an agent has not carried out, see `_agent_delay`
COMPARE = timedelta(minutes=5)  # until the object of a Work on an observed cluster is compared again
STAYS = timedelta(seconds=60)  # an object that was lost counts as retained after it has stayed for this time

_SUSPENDED = Condition(DISPATCHING, "False", "SuspendDispatching", "Work dispatching is in a suspended state.")
_DISPATCHING = Condition(DISPATCHING, "True", "Dispatching", "Work is being dispatched to member clusters.")


class ExecutionSnapshot(Struct, frozen=True):
    """A Work with its cluster and the credentials of that cluster.

    `late`: what has to be checked before an object is removed, or loses replicas, later than it was decided
    [returning-copies]. None: nothing.
    """

    subject: Work
    cluster: Cluster | None
    secret: Template | None = None
    late: leftovers.LateRemoval | None = None

    @property
    def reachable(self) -> bool:
        """Test whether this process can send requests to the member."""
        return self.alive and self.cluster is not None and self.cluster.called_directly

    @property
    def alive(self) -> bool:
        """Test whether the member can be written to, by this process or by the agent of a Pull cluster."""
        cluster = self.cluster
        return (
            cluster is not None
            and cluster.ready == "True"
            and (cluster.called_directly or cluster.spec.sync_mode == PULL)
        )

    @property
    def by_agent(self) -> bool:
        """Test whether an agent carries out a removal, now or when its cluster is back."""
        cluster = self.cluster
        return cluster is not None and cluster.spec.sync_mode == PULL and (self.alive or not cluster.terminating)

    def is_early(self, now: datetime) -> bool:
        """Test whether an agent got a removal so recently that the reasons for it are still true."""
        since = leftovers.left_to_agent(self.subject, self.cluster)
        held = is_removal_held(self.subject) or replicas_held(self.subject) > 0
        recent = since is not None and now < since + AGENT_CHECK
        return recent and not held and not leftovers.is_late_removal(self.subject, self.cluster)

    @property
    def keeps(self) -> int:
        """Return how many replicas stay for now although the Work asks for fewer. 0: it gets what it asks for.

        An agent knows only what is written on the Work.
        """
        return replicas_held(self.subject) if self.late is None else self.late.keeps

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest that is applied to the member."""
        manifest = works.sent(self.subject)
        revise = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).revise
        return revise(manifest, self.keeps) if self.keeps and revise is not None else manifest


def _work_changed(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A Work is due when its spec changed, or when its object disappeared from the member or was changed there."""
    if new is None:
        return
    edited = old is None or old.metadata.generation != new.metadata.generation or _asked(old) != _asked(new)
    if edited or _has_vanished(new) != _has_vanished(old) or is_changed(new) != is_changed(old):
        yield new.ref


def _asked(work: Work) -> tuple[str | None, ...]:
    names = (DRIFT_ANNOTATION, HELD_ANNOTATION, REPLICAS_HELD_ANNOTATION, WANTED_AGAIN_ANNOTATION)
    return tuple(work.metadata.annotations.get(name) for name in names)


def _has_vanished(work: Work | None) -> bool:
    """Test whether the applied object has disappeared from the member, as the watch on the member reported."""
    applied = None if work is None else condition(work.status.conditions, APPLIED)
    return applied is not None and applied.reason in (OBJECT_LOST, REMOVED)


def _cluster_changed(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """All Works of a cluster are due when it becomes Ready, is unjoined, or is reached in another way.

    Those of a Pull cluster also when it is not Ready any more: removals are held then.
    """
    before, after = old or Cluster("", ""), new or Cluster("", "")
    ready_changed = before.ready != after.ready and (
        after.ready == "True" or after.terminating or after.spec.sync_mode == PULL
    )
    if (
        new is None
        or ready_changed
        or connection_fields(before) != connection_fields(after)
        or before.terminating != after.terminating
        or before.observed != after.observed
    ):
        yield (new or before).ref


def _was_lost(work: Work) -> bool:
    """Test whether the object of a Work was lost, and has not stayed on its member for STAYS since."""
    retained = condition(work.status.conditions, RETAINED)
    return retained is not None and retained.status == "False"


def _put_back(work: Work, answer: Answer, *, now: datetime) -> tuple[Work, tuple[Event, ...]]:
    """Return a Work whose changed object was applied again, and the Event with what was put back [member-drift]."""
    drifted = condition(work.status.conditions, DRIFTED)
    if drifted is None or drifted.status != "True":
        return work, ()
    if answer.unchanged:
        done = Condition(DRIFTED, "False", CHANGE_GONE, "The object has the values of its manifest again.")
    else:
        done = Condition(DRIFTED, "False", PUT_BACK, f"{drifted.message} It was put back.")
    events = () if answer.unchanged else (Event(work, PUT_BACK, done.message),)
    return work.with_status(conditions=with_condition(work.status.conditions, done, now=now)), events


def _retained(work: Work, *, now: datetime) -> Decision:
    """Set the condition Retained of a Work to True once its object has stayed on the member as it is for STAYS."""
    applied, drifted = (condition(work.status.conditions, name) for name in (APPLIED, DRIFTED))
    if not _was_lost(work) or applied is None or applied.status != "True" or applied.last_transition_time is None:
        return NOTHING
    if is_changed(work):
        return NOTHING  # it is due again when the change is put back or gone
    turned = None if drifted is None else drifted.last_transition_time
    last = applied.last_transition_time if turned is None else max(applied.last_transition_time, turned)
    if now < (stays_at := last + STAYS):
        return Decision(wake_at=stays_at)
    message = f"The object has stayed on cluster {_cluster_name(work.ref)} for {STAYS.total_seconds():g} s."
    return _with_condition(work, Condition(RETAINED, "True", "ObjectStays", message), now=now)


class Execution(MemberController):
    """Key: a Work. Writes to the member, then writes the conditions and the finalizer of the Work."""

    name: ClassVar[str] = "execution"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.WORK,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.WORK, _work_changed),
        Watch(kinds.CLUSTER, _cluster_changed, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership(
        {kinds.WORK: ("status.conditions", "metadata.finalizers", "metadata.annotations")}
    )
    batch: ClassVar[int] = 200

    def __init__(self, *, in_agent: bool = False) -> None:
        """`in_agent`: the agent of a Pull cluster runs it. The control plane holds its removals
        (`with_removal_held`)."""
        self._in_agent = in_agent

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[ExecutionSnapshot | None]:
        found: dict[Ref, Work] = state.get(refs)
        names = {ref: _cluster_name(ref) for ref in refs}
        clusters = state.get([Ref(kinds.CLUSTER, "", name) for name in set(names.values()) if name])
        secrets = credentials(state, clusters.values())
        late = late_removals(
            state, [(work, clusters.get(Ref(kinds.CLUSTER, "", names[ref]))) for ref, work in found.items()]
        )
        return [
            ExecutionSnapshot(
                found[ref], clusters.get(Ref(kinds.CLUSTER, "", names[ref])), secrets.get(names[ref]), late.get(ref)
            )
            if ref in found
            else None
            for ref in refs
        ]

    def question(
        self, snapshot: ExecutionSnapshot, settings: Settings, *, now: datetime
    ) -> Ensure | Compare | Discard | None:
        work, cluster = snapshot.subject, snapshot.cluster
        if cluster is None or not snapshot.reachable or not work.manifest:
            return None
        target = endpoint_of(cluster, snapshot.secret)
        if work.metadata.deletion_timestamp is None:
            check_readable(work)
        if work.metadata.deletion_timestamp is not None:
            if WORK_FINALIZER not in work.metadata.finalizers or cluster.observed:
                return None
            if self._in_agent and is_removal_held(work):
                return None  # in a control plane the hold is left from when its cluster was a Pull cluster
            if snapshot.late is not None and not snapshot.late.goes(settings, now=now):
                return None
            return Discard(target, work.manifest, release=work.spec.preserve_resources_on_deletion is True)
        conflict = work.manifest.get("metadata", {}).get("annotations", {}).get(CONFLICT_RESOLUTION_ANNOTATION, "")
        wanted = Ensure(target, snapshot.manifest, overwrite=conflict == "overwrite")
        if cluster.observed:
            return Compare(wanted)
        if work.spec.suspend_dispatching or lost_objects.waits_until(work, now=now) is not None:
            return None
        if not _is_applied(work):
            return wanted
        put_back = is_changed(work) and is_put_back(work, settings)
        return wanted if put_back and changed_objects.waits_until(work, now=now) is None else None

    def decide(
        self, snapshot: ExecutionSnapshot, settings: Settings, *, now: datetime, answer: Answer | None = None
    ) -> Decision:
        work = snapshot.subject
        if work.metadata.deletion_timestamp is not None:
            return self._remove(snapshot, answer, settings, now=now)
        if snapshot.cluster is not None and snapshot.cluster.observed:
            return _compared(work, answer, now=now)
        held = _replicas_held(snapshot, now=now) if answer is None and snapshot.by_agent else None
        if work.spec.suspend_dispatching:
            return _with_dispatching(work, _SUSPENDED, held or NOTHING, now=now)
        if held is not None:
            return held
        if answer is None:
            # Either the object is applied, or the member cannot be reached: then a change of the cluster makes it due.
            until = lost_objects.waits_until(work, now=now)
            if until is None and is_put_back(work, settings):
                until = changed_objects.waits_until(work, now=now)
            return _retained(work, now=now) if until is None else Decision(wake_at=until)
        return _with_dispatching(work, _DISPATCHING, self._applied(snapshot, answer, now=now), now=now)

    def _applied(self, snapshot: ExecutionSnapshot, answer: Answer, *, now: datetime) -> Decision:
        """Return what the answer of the member to an apply means for the Work."""
        work = snapshot.subject
        generation = work.metadata.generation
        if answer.ok and snapshot.keeps:
            message = f"{snapshot.keeps} replicas stay until all other copies are healthy."
            kept = _with_condition(work, Condition(APPLIED, "True", REPLICAS_KEPT, message), now=now)
            return replace(kept, wake_at=now + _retry_delay(work, now=now))
        if answer.ok:
            message = (answer.note or "Manifest has been applied.")[:1024]
            new_condition = Condition(APPLIED, "True", APPLIED_SUCCESSFUL, message, None, generation)
            repaired, repair_events = _put_back(work, answer, now=now)
            done = _with_condition(repaired, new_condition, now=now, before=work)
            done = replace(done, events=(*_sync_events(work), *repair_events))
            return replace(done, wake_at=now + STAYS) if _was_lost(work) else done
        if answer.reason == NOT_OURS and _is_namespace(work):
            return _namespace_used(work, now=now)
        message = f"applying to {_cluster_name(work.ref)} failed: {answer.problem}"[:1024]
        failed = _with_condition(work, Condition(APPLIED, "False", APPLIED_FAILED, message, None, generation), now=now)
        event = Event(work, "SyncWorkFailed", message, warning=True)
        return replace(failed, wake_at=now + _retry_delay(work, now=now), events=(event,))

    def _remove(
        self, snapshot: ExecutionSnapshot, answer: Answer | None, settings: Settings, *, now: datetime
    ) -> Decision:
        """Return what the answer of the member to a removal means for a Work that is being deleted.

        `answer` None: the member was not asked.
        """
        work = snapshot.subject
        if WORK_FINALIZER not in work.metadata.finalizers:
            return NOTHING
        if snapshot.cluster is not None and snapshot.cluster.observed:
            return _without_finalizer(work, "WorkReleased")  # the object stays as it is
        if snapshot.late is not None and snapshot.late.wanted:
            # The object stays, and the next Work takes it over. Without one nothing would ever remove it.
            guards = () if snapshot.late.rests_on is None else (snapshot.late.rests_on,)
            return replace(_without_finalizer(work, "WorkWantedAgain"), guards=guards)
        waits = not (snapshot.late is None or snapshot.late.goes(settings, now=now) or snapshot.is_early(now))
        again = now + _retry_delay(work, now=now) if waits else None
        if snapshot.by_agent:
            held = waits or not snapshot.alive
            if held != is_removal_held(work):
                marked = Put(with_removal_held(work, held=held), work)
                return Decision(changes=(marked,), reason="RemovalHeld" if held else "RemovalReleased", wake_at=again)
        if waits or (self._in_agent and snapshot.cluster is None):
            return Decision(wake_at=again)  # an agent that starts may read its Works before its Cluster
        if answer is not None and answer.code == STILL_REMOVING:
            return self._still_removing(work, answer, now=now)
        gone_with_cluster = snapshot.cluster is None or (not snapshot.alive and snapshot.cluster.terminating)
        if gone_with_cluster or not work.manifest or (answer is not None and (answer.ok or answer.code == 404)):
            return _without_finalizer(work, "WorkRemoved")
        if answer is None:
            # Its agent removes the object, or the cluster cannot be reached: a failed read deletes nothing.
            delay = _agent_delay(snapshot, now=now)
            return NOTHING if delay is None else Decision(wake_at=now + delay)
        message = f"removing from {_cluster_name(work.ref)} failed: {answer.problem}"[:1024]
        failed = _with_condition(work, Condition(APPLIED, "False", CLEANUP_FAILED, message), now=now)
        event = Event(work, "CleanupWorkFailed", message, warning=True)
        return replace(failed, events=(event,), wake_at=now + _retry_delay(work, now=now))

    def _still_removing(self, work: Work, answer: Answer, *, now: datetime) -> Decision:
        """Return the Work with the reason Removing, and after REMOVAL_LIMIT with a failure and a Warning Event.

        The watch on the member makes the Work due when the object is gone. It is asked again in case the watch failed.
        """
        again = now + _retry_delay(work, now=now)
        applied = condition(work.status.conditions, APPLIED)
        began = work.metadata.deletion_timestamp
        if began is not None and now - began < REMOVAL_LIMIT:
            status = "True" if applied is None else applied.status
            new_condition = Condition(APPLIED, status, REMOVING, answer.note[:1024])
            return replace(_with_condition(work, new_condition, now=now), wake_at=min(again, began + REMOVAL_LIMIT))
        message = f"removing from {_cluster_name(work.ref)} takes more than {REMOVAL_LIMIT.seconds} s: {answer.note}"
        failed = _with_condition(work, Condition(APPLIED, "False", CLEANUP_FAILED, message[:1024]), now=now)
        event = Event(work, "CleanupWorkFailed", message[:1024], warning=True)
        return replace(failed, events=(event,), wake_at=again)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        refs = state.refs_by_index(kinds.WORK, "cluster", origin.name, after=cursor_after(after), limit=limit)
        return page(refs, limit=limit)


def _compared(work: Work, answer: Answer | None, *, now: datetime) -> Decision:
    """Return the Work with what would change on its observed cluster."""
    if answer is None:
        return NOTHING
    text = answer.note if answer.ok else f"what would change is not known: {answer.problem}"
    new_condition = Condition(APPLIED, "Unknown", OBSERVED, text[:1024], None, work.metadata.generation)
    return replace(_with_condition(work, new_condition, now=now), wake_at=now + COMPARE)


def _without_finalizer(work: Work, reason: str) -> Decision:
    """Remove the finalizer of a Work, which ends its deletion."""
    rest = tuple(name for name in work.metadata.finalizers if name != WORK_FINALIZER)
    return Decision(changes=(Put(work.with_meta(finalizers=rest), work),), reason=reason)


def _sync_events(work: Work) -> Iterator[Event]:
    """Yield the Event of a Work that is applied for the first time, or for the first time after a failure."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.status != "True":
        place, cluster = work.manifest.get("metadata") or {}, _cluster_name(work.ref)
        shown = "/".join(filter(None, (place.get("namespace"), place.get("name"))))
        yield Event(work, "SyncSucceed", f"Successfully applied resource({shown}) to cluster {cluster}", step=True)


def _is_namespace(work: Work) -> bool:
    return (work.manifest.get("apiVersion"), work.manifest.get("kind")) == ("v1", "Namespace")


def _namespace_used(work: Work, *, now: datetime) -> Decision:
    """Return the Work of a Namespace that the member had before. The Namespace is used and never changed or deleted."""
    message = "The Namespace existed on the member before. It is used as it is, and not deleted with its template."
    new_condition = Condition(APPLIED, "True", NAMESPACE_USED, message, None, work.metadata.generation)
    applied = condition(work.status.conditions, APPLIED)
    reported = applied is not None and applied.reason == NAMESPACE_USED
    events = () if reported else (Event(work, NAMESPACE_USED, message),)
    return replace(_with_condition(work, new_condition, now=now), events=events, wake_at=now + NAMESPACE_CHECK)


def _replicas_held(snapshot: ExecutionSnapshot, *, now: datetime) -> Decision | None:
    """Return the Work by which the agent of a Pull cluster keeps replicas for now, or no longer. None: it keeps none.

    What it has applied already is not undone.
    """
    work = snapshot.subject
    late = None if _is_applied(work) or snapshot.is_early(now) else snapshot.late
    keeps = 0 if late is None else late.keeps
    delay = _kept_delay(snapshot, now=now) if keeps else _agent_delay(snapshot, now=now)
    again = None if delay is None else now + delay
    if keeps == replicas_held(work):
        return None if again is None else Decision(wake_at=again)
    held = with_replicas_held(work, keeps)
    return Decision(changes=(Put(held, work),), reason="ReplicasHeld" if keeps else "ReplicasReleased", wake_at=again)


def _kept_delay(snapshot: ExecutionSnapshot, *, now: datetime) -> timedelta:
    """Return how long to wait before the next look at replicas that an agent keeps: as long as it has kept them, from
    RETRY to LONGEST_RETRY.

    While its cluster is not Ready it keeps them in any case. Only their number may change, with the workload.
    """
    since = leftovers.left_to_agent(snapshot.subject, snapshot.cluster) if snapshot.alive else None
    if since is None:
        return _retry_delay(snapshot.subject, now=now) if snapshot.alive else LONGEST_RETRY
    return min(max(now - since, RETRY), LONGEST_RETRY)


def _agent_delay(snapshot: ExecutionSnapshot, *, now: datetime) -> timedelta | None:
    """Return how long to wait before the next look at what an agent has not carried out: a tenth of the time since it
    was asked to, from AGENT_CHECK to LONGEST_RETRY. None: there is no such thing.

    While its cluster is not Ready nothing is carried out, and the end of that makes the Work due.
    """
    since = leftovers.left_to_agent(snapshot.subject, snapshot.cluster) if snapshot.alive else None
    return None if since is None else min(max((now - since) / 10, AGENT_CHECK), LONGEST_RETRY)


def _is_applied(work: Work) -> bool:
    """Test whether the present spec of the Work has been applied and needs no further request.

    False for a lost object, and for a Namespace that the member had before: its owner may have deleted it since. True
    for an object that had finished and is gone, whatever the spec is now.
    """
    applied = condition(work.status.conditions, APPLIED)
    if applied is not None and applied.reason in (NAMESPACE_USED, FINISHED):
        return applied.reason == FINISHED
    return applied is not None and applied.status == "True" and applied.observed_generation == work.metadata.generation


def _with_dispatching(work: Work, new_condition: Condition, decided: Decision = NOTHING, *, now: datetime) -> Decision:
    """Return the decision with the condition Dispatching of the Work, and with an Event if its status changed."""
    before = condition(work.status.conditions, DISPATCHING)
    if before is not None and before.status == new_condition.status:
        return decided
    new = next(
        (change.new for change in decided.changes if isinstance(change, Put) and isinstance(change.new, Work)), work
    )
    put = Put(new.with_status(conditions=with_condition(new.status.conditions, new_condition, now=now)), work)
    event = Event(work, "WorkDispatching", new_condition.message, step=True)
    return replace(
        decided, changes=(put,), events=(*decided.events, event), reason=decided.reason or new_condition.reason
    )


def _with_condition(work: Work, new_condition: Condition, *, now: datetime, before: Work | None = None) -> Decision:
    """Return the change of a Work to one with this condition. `before`: the Work as it is stored, if `work` is not."""
    stored = before or work
    conditions = with_condition(work.status.conditions, new_condition, now=now)
    changed = work.with_status(conditions=conditions)
    return NOTHING if changed is stored else Decision(changes=(Put(changed, stored),), reason=new_condition.reason)


def _retry_delay(work: Work, *, now: datetime) -> timedelta:
    """Return how long to wait before the next try: as long as it has been failing, from RETRY to LONGEST_RETRY."""
    applied = condition(work.status.conditions, APPLIED)
    begun = work.metadata.deletion_timestamp or (
        applied.last_transition_time
        if applied is not None and (applied.status == "False" or applied.reason == REPLICAS_KEPT)
        else None
    )
    return RETRY if begun is None else min(max(now - begun, RETRY), LONGEST_RETRY)


def _cluster_name(ref: Ref) -> str:
    """Return the cluster of a Work, "" if its namespace is not the execution namespace of a cluster."""
    try:
        return cluster_of_execution_namespace(ref.namespace)
    except ValueError:
        return ""

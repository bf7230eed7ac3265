"""Execution: brings a Work's manifest to its member, and takes it away again when the Work goes (semantics 2.10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.meta import Condition, Ref, Struct, condition, with_condition
from controlplane.apimachinery.names import (
    CONFLICT_RESOLUTION_ANNOTATION,
    WORK_FINALIZER,
    cluster_of_execution_namespace,
)
from controlplane.clusters.questions import NOT_OURS, Answer, Discard, Ensure, endpoint_of
from controlplane.clusters.questions import REMOVING as STILL_REMOVING
from controlplane.controllers.reads.lost_objects import OBJECT_LOST, waits_until
from controlplane.controllers.reads.member_access import connection_fields, credentials
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.controllers.reads.placed import needed_on
from controlplane.engine.controller import Ownership, cursor_after, page
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.eviction import leftovers
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import PULL, Cluster
from controlplane.kinds.template import Template
from controlplane.kinds.work import (
    APPLIED,
    APPLIED_FAILED,
    CLEANUP_FAILED,
    DISPATCHING,
    NAMESPACE_USED,
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
REMOVAL_PATIENCE = timedelta(seconds=60)  # a Namespace with content takes this long; then the Work's Events warn
USED_AGAIN = timedelta(hours=1)  # until a Namespace of somebody else is looked at again: it may have been deleted
STAYS = timedelta(seconds=60)  # so long an object has to stay on its member to count as kept

_SUSPENDED = Condition(DISPATCHING, "False", "SuspendDispatching", "Work dispatching is in a suspended state.")
_DISPATCHING = Condition(DISPATCHING, "True", "Dispatching", "Work is being dispatched to member clusters.")


class Dispatch(Struct, frozen=True):
    """A Work with the cluster it is for and that cluster's credentials. `late`: what its removal has to mind, and its
    shrinking where that was decided at another time (fault 33)."""

    subject: Work
    cluster: Cluster | None
    secret: Template | None = None
    late: leftovers.LateRemoval | None = None

    @property
    def reachable(self) -> bool:
        """Test whether we can ask the member ourselves."""
        return self.alive and self.cluster is not None and self.cluster.dialled

    @property
    def alive(self) -> bool:
        """Test whether somebody can: we, or its agent from inside."""
        cluster = self.cluster
        return cluster is not None and cluster.ready == "True" and (cluster.dialled or cluster.spec.sync_mode == PULL)

    @property
    def keeps(self) -> int:
        """Return how many replicas stay although the Work asks for fewer; 0 where it gets what it asks for."""
        return 0 if self.late is None else self.late.keeps

    @property
    def manifest(self) -> dict[str, Any]:
        """What is brought to the member."""
        manifest = self.subject.manifest
        revise = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).revise
        return revise(manifest, self.keeps) if self.keeps and revise is not None else manifest


def _works(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A Work is due when what it wants changed, not when its status did."""
    if new is None:
        return
    fresh = old is None or old.metadata.generation != new.metadata.generation
    if fresh or vanished(new) != vanished(old):
        yield new.ref


def vanished(work: Work | None) -> bool:
    """Test whether the member no longer holds what was applied, as its watch said."""
    applied = None if work is None else condition(work.status.conditions, APPLIED)
    return applied is not None and applied.reason in (OBJECT_LOST, REMOVED)


def _clusters(old: Cluster | None, new: Cluster | None) -> Iterator[Ref]:
    """All Works of a cluster are due when it comes back, is being removed, or its way in changed."""
    before, after = old or Cluster("", ""), new or Cluster("", "")
    turned = before.ready != after.ready and (after.ready == "True" or after.terminating)
    if (
        new is None
        or turned
        or connection_fields(before) != connection_fields(after)
        or before.terminating != after.terminating
    ):
        yield (new or before).ref


def _is_shaky(work: Work) -> bool:
    retained = condition(work.status.conditions, RETAINED)
    return retained is not None and retained.status == "False"


def _kept(work: Work, *, now: datetime) -> Decision:
    """Return the Work as one whose object stays on its member, once it has for STAYS."""
    applied = condition(work.status.conditions, APPLIED)
    if not _is_shaky(work) or applied is None or applied.status != "True" or applied.last_transition_time is None:
        return NOTHING
    if now < (stays_at := applied.last_transition_time + STAYS):
        return Decision(wake_at=stays_at)
    message = f"the object has stayed on {_cluster_name(work.ref)} for {STAYS.total_seconds():g} s"
    return _told(work, Condition(RETAINED, "True", "ObjectStays", message), now=now)


class Execution(MemberController):
    """Key: a Work. Asks the member, then writes the Work's conditions and finalizer."""

    name: ClassVar[str] = "execution"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.WORK,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.WORK, _works),
        Watch(kinds.CLUSTER, _clusters, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership({kinds.WORK: ("status.conditions", "metadata.finalizers")})
    batch: ClassVar[int] = 200

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Dispatch | None]:
        found: dict[Ref, Work] = state.get(refs)
        names = {ref: _cluster_name(ref) for ref in refs}
        clusters = state.get([Ref(kinds.CLUSTER, "", name) for name in set(names.values()) if name])
        secrets = credentials(state, clusters.values())
        late = _late(state, [(work, clusters.get(Ref(kinds.CLUSTER, "", names[ref]))) for ref, work in found.items()])
        return [
            Dispatch(
                found[ref], clusters.get(Ref(kinds.CLUSTER, "", names[ref])), secrets.get(names[ref]), late.get(ref)
            )
            if ref in found
            else None
            for ref in refs
        ]

    def question(self, snapshot: Dispatch, settings: Settings, *, now: datetime) -> Ensure | Discard | None:
        work, cluster = snapshot.subject, snapshot.cluster
        if cluster is None or not snapshot.reachable or not work.manifest:
            return None
        target = endpoint_of(cluster, snapshot.secret)
        if work.metadata.deletion_timestamp is not None:
            if WORK_FINALIZER not in work.metadata.finalizers:
                return None
            if snapshot.late is not None and (snapshot.late.wanted or not snapshot.late.may_go):
                return None
            return Discard(target, work.manifest, release=work.spec.preserve_resources_on_deletion is True)
        if work.spec.suspend_dispatching or _done(work) or waits_until(work, now=now) is not None:
            return None
        how = work.manifest.get("metadata", {}).get("annotations", {}).get(CONFLICT_RESOLUTION_ANNOTATION, "")
        return Ensure(target, snapshot.manifest, overwrite=how == "overwrite")

    def decide(
        self, snapshot: Dispatch, settings: Settings, *, now: datetime, answer: Answer | None = None
    ) -> Decision:
        work = snapshot.subject
        if work.metadata.deletion_timestamp is not None:
            return self._leave(snapshot, answer, now=now)
        if work.spec.suspend_dispatching:
            return _dispatched(work, _SUSPENDED, now=now)
        if answer is None:
            # Not reachable: due again by the cluster's own change. Done: nothing is left to do but to see it stay.
            lost_until = waits_until(work, now=now)
            return _kept(work, now=now) if lost_until is None else Decision(wake_at=lost_until)
        return _dispatched(work, _DISPATCHING, self._answered(snapshot, answer, now=now), now=now)

    def _answered(self, snapshot: Dispatch, answer: Answer, *, now: datetime) -> Decision:
        """Return what the member's answer to an apply means for the Work."""
        work = snapshot.subject
        seen = work.metadata.generation
        if answer.ok and snapshot.keeps:
            message = f"{snapshot.keeps} replicas stay until all other copies are healthy"
            kept = _told(work, Condition(APPLIED, "True", REPLICAS_KEPT, message), now=now)
            return replace(kept, wake_at=now + _patience(work, now=now))
        if answer.ok:
            message = (answer.note or "Manifest has been applied.")[:1024]
            said = Condition(APPLIED, "True", "AppliedSuccessful", message, None, seen)
            done = replace(_told(work, said, now=now), events=tuple(_synced(work)))
            return replace(done, wake_at=now + STAYS) if _is_shaky(work) else done
        if answer.reason == NOT_OURS and _is_namespace(work):
            return _used(work, now=now)
        message = f"applying to {_cluster_name(work.ref)} failed: {answer.problem}"[:1024]
        failed = _told(work, Condition(APPLIED, "False", APPLIED_FAILED, message, None, seen), now=now)
        event = Event(work, "SyncWorkFailed", message, warning=True)
        return replace(failed, wake_at=now + _patience(work, now=now), events=(event,))

    def _leave(self, snapshot: Dispatch, answer: Answer | None, *, now: datetime) -> Decision:
        work = snapshot.subject
        if WORK_FINALIZER not in work.metadata.finalizers:
            return NOTHING
        if snapshot.late is not None and snapshot.late.wanted:
            return _let_go(work, "WorkWantedAgain")  # the copy stays, and the next Work takes it over
        if snapshot.late is not None and not snapshot.late.may_go:
            return Decision(wake_at=now + _patience(work, now=now))
        if answer is not None and answer.code == STILL_REMOVING:
            return self._still_removing(work, answer, now=now)
        gone_with_cluster = snapshot.cluster is None or (not snapshot.alive and snapshot.cluster.terminating)
        if gone_with_cluster or not work.manifest or (answer is not None and (answer.ok or answer.code == 404)):
            return _let_go(work, "WorkRemoved")
        if answer is None:
            return NOTHING  # the cluster is away: nothing is deleted because something could not be read
        message = f"removing from {_cluster_name(work.ref)} failed: {answer.problem}"[:1024]
        failed = _told(work, Condition(APPLIED, "False", CLEANUP_FAILED, message), now=now)
        event = Event(work, "CleanupWorkFailed", message, warning=True)
        return replace(failed, events=(event,), wake_at=now + _patience(work, now=now))

    def _still_removing(self, work: Work, answer: Answer, *, now: datetime) -> Decision:
        """Return the Work with the reason Removing; only after REMOVAL_PATIENCE a failure with a Warning.

        The watch of the member makes the Work due when the object is gone. Asking again is for a lost watch.
        """
        again = now + _patience(work, now=now)
        applied = condition(work.status.conditions, APPLIED)
        began = work.metadata.deletion_timestamp
        if began is not None and now - began < REMOVAL_PATIENCE:
            status = "True" if applied is None else applied.status
            said = Condition(APPLIED, status, REMOVING, answer.note[:1024])
            return replace(_told(work, said, now=now), wake_at=min(again, began + REMOVAL_PATIENCE))
        message = f"removing from {_cluster_name(work.ref)} takes more than {REMOVAL_PATIENCE.seconds} s: {answer.note}"
        failed = _told(work, Condition(APPLIED, "False", CLEANUP_FAILED, message[:1024]), now=now)
        event = Event(work, "CleanupWorkFailed", message[:1024], warning=True)
        return replace(failed, events=(event,), wake_at=again)

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        refs = state.refs_by_index(kinds.WORK, "cluster", origin.name, after=cursor_after(after), limit=limit)
        return page(refs, limit=limit)


def _let_go(work: Work, reason: str) -> Decision:
    rest = tuple(one for one in work.metadata.finalizers if one != WORK_FINALIZER)
    return Decision(changes=(Put(work.with_meta(finalizers=rest), work),), reason=reason)


def _late(state: State, found: Iterable[tuple[Work, Cluster | None]]) -> dict[Ref, leftovers.LateRemoval]:
    """Return, for Works that are removed, or shrink late, what their bindings say now (fault 33)."""
    owners: dict[Ref, Ref] = {}
    known = [(work, leftovers.is_late_removal(work, cluster), cluster) for work, cluster in found]
    overdue = {work.ref for work, is_late, _ in known if is_late}
    asked = {work.ref: work for work, is_late, at in known if is_late or leftovers.may_be_target_again(work, at)}
    for work in asked.values():
        owners.update((work.ref, owner) for owner in works.owner(work, kinds.BINDINGS))
    bindings: dict[Ref, Binding] = state.get(sorted(set(owners.values()))) if owners else {}
    names = sorted({target.name for one in bindings.values() for target in works.targets(one)})
    clusters = state.get([Ref(kinds.CLUSTER, "", name) for name in names]) if names else {}
    places: dict[str, Cluster] = {ref.name: cluster for ref, cluster in clusters.items()}
    needed = needed_on(state, bindings.values())

    def late(ref: Ref, binding: Binding) -> leftovers.LateRemoval:
        cluster = _cluster_name(ref)
        still = cluster in needed.get(binding.ref, ())
        return leftovers.decide_late_removal(binding, asked[ref], cluster, places, overdue=ref in overdue, needed=still)

    return {
        ref: late(ref, bindings[owner]) for ref, owner in owners.items() if _is_owned(asked[ref], bindings.get(owner))
    }


def _synced(work: Work) -> Iterator[Event]:
    """Yield the Event of a Work that its member takes for the first time, or again after a failure."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or applied.status != "True":
        place, cluster = work.manifest.get("metadata") or {}, _cluster_name(work.ref)
        shown = "/".join(filter(None, (place.get("namespace"), place.get("name"))))
        yield Event(work, "SyncSucceed", f"Successfully applied resource({shown}) to cluster {cluster}", step=True)


def _is_namespace(work: Work) -> bool:
    return (work.manifest.get("apiVersion"), work.manifest.get("kind")) == ("v1", "Namespace")


def _used(work: Work, *, now: datetime) -> Decision:
    """Return the Work of a Namespace that the member had before: said once, and used as it is."""
    message = "The Namespace existed on the member before. It is used as it is, and not deleted with its template."
    said = Condition(APPLIED, "True", NAMESPACE_USED, message, None, work.metadata.generation)
    applied = condition(work.status.conditions, APPLIED)
    known = applied is not None and applied.reason == NAMESPACE_USED
    events = () if known else (Event(work, NAMESPACE_USED, message),)
    return replace(_told(work, said, now=now), events=events, wake_at=now + USED_AGAIN)


def _is_owned(work: Work, binding: Binding | None) -> bool:
    return binding is not None and works.is_of(work, binding)


def _done(work: Work) -> bool:
    """Test whether what the Work wants now has been applied: a lost object is applied again, and a Namespace that is
    used as it is may be deleted by its owner."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is not None and applied.reason == NAMESPACE_USED:
        return False
    return applied is not None and applied.status == "True" and applied.observed_generation == work.metadata.generation


def _dispatched(work: Work, said: Condition, decided: Decision = NOTHING, *, now: datetime) -> Decision:
    """Return the decision with the Work's condition Dispatching, and an Event where its status is news."""
    before = condition(work.status.conditions, DISPATCHING)
    if before is not None and before.status == said.status:
        return decided
    new = next((one.new for one in decided.changes if isinstance(one, Put) and isinstance(one.new, Work)), work)
    put = Put(new.with_status(conditions=with_condition(new.status.conditions, said, now=now)), work)
    told = Event(work, "WorkDispatching", said.message, step=True)
    return replace(decided, changes=(put,), events=(*decided.events, told), reason=decided.reason or said.reason)


def _told(work: Work, said: Condition, *, now: datetime) -> Decision:
    conditions = with_condition(work.status.conditions, said, now=now)
    changed = work.with_status(conditions=conditions)
    return NOTHING if changed is work else Decision(changes=(Put(changed, work),), reason=said.reason)


def _patience(work: Work, *, now: datetime) -> timedelta:
    """Return how long to wait before the next try: as long as it has been failing, between 2 s and a minute."""
    applied = condition(work.status.conditions, APPLIED)
    begun = work.metadata.deletion_timestamp or (
        applied.last_transition_time
        if applied is not None and (applied.status == "False" or applied.reason == REPLICAS_KEPT)
        else None
    )
    return RETRY if begun is None else min(max(now - begun, RETRY), LONGEST_RETRY)


def _cluster_name(ref: Ref) -> str:
    try:
        return cluster_of_execution_namespace(ref.namespace)
    except ValueError:
        return ""

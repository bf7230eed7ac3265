"""WorkStatus: writes the status and the health of an object on its member into its Work [status-aggregation]."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.meta import Condition, Ref, Struct, condition, with_condition
from controlplane.clusters import changed_objects
from controlplane.clusters.changed_objects import is_changed, is_put_back, wait_before_repair
from controlplane.clusters.lost_objects import OBJECT_LOST, wait_before_reapply
from controlplane.clusters.questions import Answer, Observe
from controlplane.controllers.reads.interpreted_bindings import RULES_CHANGED, bindings_of_kind
from controlplane.controllers.reads.member_access import check_readable
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.run import put_off
from controlplane.engine.state import State, Watch
from controlplane.interpret import InterpretationFailed
from controlplane.interpret.known_rules import UNREADABLE
from controlplane.kinds.binding import HEALTHY, UNHEALTHY, UNKNOWN
from controlplane.kinds.work import (
    APPLIED,
    APPLIED_SUCCESSFUL,
    CHANGE_GONE,
    CHANGE_REPORTED,
    CLEANUP_FAILED,
    DRIFTED,
    FINISHED,
    NAMESPACE_USED,
    OBJECT_CHANGED,
    REMOVED,
    REMOVING,
    RETAINED,
    ManifestStatus,
    ResourceIdentifier,
    Work,
)
from controlplane.settings import Settings

EXECUTION = "execution"  # the controller that applies objects


class WorkStatusSnapshot(Struct, frozen=True):
    """A Work whose object on the member changed."""

    subject: Work


def _first_applied(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A Work without a status is due when it was applied: the watch on its member may have reported before that."""
    if new is not None and not new.status.manifest_statuses and _is_applied(new) and not _is_applied(old):
        yield new.ref


def _is_being_removed(work: Work) -> bool:
    """Test whether a deleted Work waits until its member has deleted the object."""
    applied = condition(work.status.conditions, APPLIED)
    return applied is not None and applied.reason in (REMOVING, CLEANUP_FAILED)


def _is_applied(work: Work | None) -> bool:
    applied = None if work is None else condition(work.status.conditions, APPLIED)
    return applied is not None and applied.status == "True" and applied.reason != NAMESPACE_USED


class WorkStatus(MemberController):
    """Key: a Work. Writes its manifestStatuses, and the conditions of a lost or changed object.

    A Work is due when the watch on its member reports its object, and when it is applied for the first time.
    """

    name: ClassVar[str] = "work_status"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.WORK,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(kinds.WORK, _first_applied), *RULES_CHANGED)
    owns: ClassVar[Ownership] = Ownership({kinds.WORK: ("status.conditions", "status.manifest_statuses")})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[WorkStatusSnapshot | None]:
        found = state.get(refs)
        return [WorkStatusSnapshot(found[ref]) if ref in found else None for ref in refs]

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the Works of the kind whose rules changed."""
        found, cursor = bindings_of_kind(state, origin, after=after, limit=limit)
        named = state.by_index(kinds.WORK, "binding", [str(binding.ref) for binding in found])
        return sorted(work.ref for works in named.values() for work in works), cursor

    def question(self, snapshot: WorkStatusSnapshot, settings: Settings, *, now: datetime) -> Observe | None:
        work = snapshot.subject
        if (
            not work.manifest
            or not work.cluster
            or (work.metadata.deletion_timestamp is not None and not _is_being_removed(work))
        ):
            return None
        if work.metadata.deletion_timestamp is None:
            check_readable(work)  # the object is compared with the manifest
        # A process that may write to no member asks it nothing either, for example after a restore.
        return Observe(work.cluster, work.manifest, asks=_is_in_force(work) and settings.runs(EXECUTION))

    def decide(
        self, snapshot: WorkStatusSnapshot, settings: Settings, *, now: datetime, answer: Answer | None = None
    ) -> Decision:
        """Write the status and the health of the object to its Work, by the answer of the member.

        An object that the member does not have is marked as lost, for which it is applied again.
        """
        work = snapshot.subject
        applied = condition(work.status.conditions, APPLIED)
        if answer is None or applied is None or applied.reason == NAMESPACE_USED:
            return NOTHING  # an object that this product does not manage is not watched
        if answer.code == 404:
            return self._vanished(work, applied, answer.body, now=now)
        if not answer.ok or work.metadata.deletion_timestamp is not None:
            return NOTHING
        reflecting, failure = _reflecting(work, answer.body)
        going = "deletionTimestamp" in (answer.body.get("metadata") or {})
        if going and _has_finished(reflecting) and not _has_finished(work):
            # It ends because it is deleted. If it had finished before, the watch reports its last state.
            return NOTHING
        changed, events = _with_drift(reflecting, answer.drift, settings, now=now)
        again = Decision() if failure is None else put_off(failure, work, now=now)
        if changed is work:
            return Decision(wake_at=again.wake_at)  # its Event is there
        # The manifest that the object was compared with must still be the one of the Work.
        upon = () if changed is reflecting else ("spec",)
        return Decision(
            changes=(Put(changed, work, upon=upon),),
            events=(*_first_status_events(work), *events, *again.events),
            wake_at=again.wake_at,
            reason="StatusReflected" if changed is reflecting else DRIFTED,
        )

    def _vanished(self, work: Work, applied: Condition, last: dict[str, Any] | None, *, now: datetime) -> Decision:
        """Return a Work whose object disappeared: it is applied again, or had finished, or its removal has ended.

        `last`: its last state, if it is known that it had finished. The Work may have an earlier one.
        """
        if work.metadata.deletion_timestamp is not None:
            new_applied = Condition(APPLIED, "False", REMOVED, "The object is no longer on the member.")
            return _without_object(work, new_applied, now=now)
        if applied.status != "True":
            return NOTHING
        ended = work if last is None else _reflecting(work, last)[0]
        if _has_finished(ended):
            message = "The object had finished. The member does not have it any more, and it is not applied again."
            done = Condition(APPLIED, "True", FINISHED, message, None, applied.observed_generation)
            conditions = with_condition(work.status.conditions, done, now=now)
            if is_changed(work):
                gone = Condition(DRIFTED, "False", CHANGE_GONE, "The object is no longer on the member.")
                conditions = with_condition(conditions, gone, now=now)
            kept = ended.with_status(conditions=conditions)
            if kept is work:
                return NOTHING
            return Decision(changes=(Put(kept, work),), events=tuple(_first_status_events(work)), reason=FINISHED)
        retained = Condition(RETAINED, "False", OBJECT_LOST, "The member does not keep the object.")
        unretained = work.with_status(conditions=with_condition(work.status.conditions, retained, now=now))
        message = "The object is no longer on the member; it is applied again"
        new_applied = Condition(APPLIED, "False", OBJECT_LOST, f"{message}.")
        lost = unretained.with_status(conditions=with_condition(unretained.status.conditions, new_applied, now=now))
        if wait := wait_before_reapply(lost).total_seconds():
            why = "it was lost before, so something on the member deletes it"
            new_applied = replace(new_applied, message=f"{message} in {wait:g} s: {why}.")
        event = Event(work, OBJECT_LOST, new_applied.message, warning=True)
        changed = unretained.with_status(
            conditions=with_condition(unretained.status.conditions, new_applied, now=now), manifest_statuses=()
        )
        return Decision(changes=(Put(changed, work),), events=(event,), reason=OBJECT_LOST)


def _reflecting(work: Work, manifest: dict[str, Any]) -> tuple[Work, InterpretationFailed | None]:
    """Return a Work with status and health of its object on the member, and why a rule of a user for the health failed.

    The object may not change any more, so such a rule has to be asked again.
    """
    failure = None
    try:
        judged = health(manifest)
    except InterpretationFailed as error:
        judged, failure = UNKNOWN, error
    status = ManifestStatus(_identifier(manifest), reflected(manifest), judged)
    return work.with_status(manifest_statuses=(status,)), failure


def _has_finished(work: Work) -> bool:
    """Test whether the object of a Work reported last that it has finished, so that it would run a second time."""
    knows = interpret.interpreter_for(work.manifest.get("apiVersion", ""), work.manifest.get("kind", ""))
    return any(knows.has_finished(reported.status) for reported in work.status.manifest_statuses)


def _is_being_put_back(work: Work, settings: Settings, *, now: datetime) -> bool:
    """Test whether the controller execution applies a changed object now. It then reports what came of the change."""
    waits = work.spec.suspend_dispatching or changed_objects.waits_until(work, now=now) is not None
    return is_put_back(work, settings) and not waits


def _is_in_force(work: Work) -> bool:
    """Test whether the present manifest was applied, so that another state of the object is a change."""
    applied = condition(work.status.conditions, APPLIED)
    if applied is None or (applied.status, applied.reason) != ("True", APPLIED_SUCCESSFUL):
        return False
    return applied.observed_generation == work.metadata.generation


def _with_drift(work: Work, drift: str, settings: Settings, *, now: datetime) -> tuple[Work, tuple[Event, ...]]:
    """Return the Work with what was changed on its member, and the Event about it [member-drift].

    `drift`: the difference in words; "": there is none. What is put back gets its Event when that is done.
    """
    drifted = condition(work.status.conditions, DRIFTED)
    if not _is_in_force(work):
        return work, ()
    if not drift:
        if not is_changed(work) or _is_being_put_back(work, settings, now=now):
            return work, ()
        gone = Condition(DRIFTED, "False", CHANGE_GONE, "The object has the values of its manifest again.")
        return work.with_status(conditions=with_condition(work.status.conditions, gone, now=now)), ()
    changed = f"Changed on the member: {drift}."[:1000]
    if not is_put_back(work, settings):
        new = Condition(DRIFTED, "True", CHANGE_REPORTED, changed)
        is_reported = drifted is not None and (drifted.status, drifted.message) == ("True", changed)
        events = () if is_reported else (Event(work, CHANGE_REPORTED, f"{changed} It is only reported.", warning=True),)
        return work.with_status(conditions=with_condition(work.status.conditions, new, now=now)), events
    if is_changed(work):
        return work, ()
    conditions, later = _not_retained(work, now=now)
    new = Condition(DRIFTED, "True", OBJECT_CHANGED, changed)
    events = (Event(work, OBJECT_CHANGED, f"{changed} {later}", warning=True),) if later else ()
    return work.with_status(conditions=with_condition(conditions, new, now=now)), events


def _not_retained(work: Work, *, now: datetime) -> tuple[tuple[Condition, ...], str]:
    """Return the conditions of a Work whose object was changed, with Retained False, and why the repair waits.

    "": the object is put back at once.
    """
    retained = Condition(RETAINED, "False", OBJECT_CHANGED, "The member does not keep the object as it was applied.")
    conditions = with_condition(work.status.conditions, retained, now=now)
    wait = wait_before_repair(work.with_status(conditions=conditions), at=now).total_seconds()
    if not wait:
        return conditions, ""
    later = f"It is put back in {wait:g} s, because it was put back before: something on the member changes it again."
    return with_condition(conditions, replace(retained, message=f"{retained.message} {later}"), now=now), later


def _first_status_events(work: Work) -> Iterator[Event]:
    """Yield the Events of a Work whose object is reported for the first time. Later reports yield none."""
    if not work.status.manifest_statuses:
        yield Event(work, "ReflectStatusSucceed", f"Reflect status of cluster {work.cluster} succeed.", step=True)
        yield Event(work, "InterpretHealthSucceed", f"Interpret health on cluster {work.cluster} succeed.", step=True)


def _without_object(work: Work, new_applied: Condition, *, now: datetime) -> Decision:
    """Return a Work whose object was removed, without the status of the object."""
    conditions = with_condition(work.status.conditions, new_applied, now=now)
    changed = work.with_status(conditions=conditions, manifest_statuses=())
    return NOTHING if changed is work else Decision(changes=(Put(changed, work),), reason=new_applied.reason)


def reflected(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """Return the part of the status of an object that its kind reports back, all of it for kinds without a rule.

    A status that is no object, as custom kinds may have, is not reported: a Work has no place for it.
    """
    rule = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).reflect
    if rule is not None:
        return rule(manifest)
    status = manifest.get("status")
    return status if isinstance(status, dict) and status else None


def health(manifest: dict[str, Any]) -> str:
    """Return Healthy or Unhealthy by the rule of the kind. Healthy: there is no rule. Unknown: the object has no status
    that a rule which is known here can read.

    Raises InterpretationFailed, Unanswered.
    """
    rule = interpret.interpreter_for(manifest.get("apiVersion", ""), manifest.get("kind", "")).healthy
    try:
        return HEALTHY if rule is None or rule(manifest) else UNHEALTHY
    except InterpretationFailed:
        raise
    except UNREADABLE:
        return UNKNOWN


def _identifier(manifest: dict[str, Any]) -> ResourceIdentifier:
    group, _, version = manifest.get("apiVersion", "").rpartition("/")
    metadata = manifest.get("metadata", {})
    return ResourceIdentifier(
        group=group,
        version=version,
        kind=manifest.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )

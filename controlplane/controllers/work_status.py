"""WorkStatus: what a member says of an object of ours, written into its Work (semantics 2.11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, ClassVar

from msgspec.structs import replace

from controlplane import interpret, kinds
from controlplane.apimachinery.meta import Condition, Ref, Struct, condition, with_condition
from controlplane.clusters.questions import Answer, Observe
from controlplane.controllers.reads.lost_objects import OBJECT_LOST, wait_before_reapply
from controlplane.controllers.reads.member_controller import MemberController
from controlplane.engine.controller import Ownership
from controlplane.engine.decision import NOTHING, Decision, Event, Put
from controlplane.engine.state import State, Watch
from controlplane.kinds.binding import HEALTHY, UNHEALTHY, UNKNOWN
from controlplane.kinds.work import (
    APPLIED,
    CLEANUP_FAILED,
    NAMESPACE_USED,
    REMOVED,
    REMOVING,
    RETAINED,
    ManifestStatus,
    ResourceIdentifier,
    Work,
)
from controlplane.settings import Settings


class Held(Struct, frozen=True):
    """A Work whose member object changed."""

    subject: Work


def _applied(old: Work | None, new: Work | None) -> Iterator[Ref]:
    """A Work nothing is known of yet is due once it is applied: its member may have told of the object before that."""
    if new is not None and not new.status.manifest_statuses and _is_applied(new) and not _is_applied(old):
        yield new.ref


def _waits(work: Work) -> bool:
    """Test whether a Work that is being removed waits for its member to finish the deletion of the object."""
    applied = condition(work.status.conditions, APPLIED)
    return applied is not None and applied.reason in (REMOVING, CLEANUP_FAILED)


def _is_applied(work: Work | None) -> bool:
    applied = None if work is None else condition(work.status.conditions, APPLIED)
    return applied is not None and applied.status == "True" and applied.reason != NAMESPACE_USED


class WorkStatus(MemberController):
    """Key: a Work. Made due by the watch on its member, and when it is applied for the first time."""

    name: ClassVar[str] = "work_status"
    group: ClassVar[str] = "members"
    keys: ClassVar[tuple[str, ...]] = (kinds.WORK,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(kinds.WORK, _applied),)
    owns: ClassVar[Ownership] = Ownership({kinds.WORK: ("status.conditions", "status.manifest_statuses")})

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Held | None]:
        found = state.get(refs)
        return [Held(found[ref]) if ref in found else None for ref in refs]

    def question(self, snapshot: Held, settings: Settings, *, now: datetime) -> Observe | None:
        work = snapshot.subject
        if not work.manifest or not work.cluster or (work.metadata.deletion_timestamp is not None and not _waits(work)):
            return None
        return Observe(work.cluster, work.manifest)

    def decide(self, snapshot: Held, settings: Settings, *, now: datetime, answer: Answer | None = None) -> Decision:
        """Return the Work with the object's status and health; an object that vanished is applied again."""
        work = snapshot.subject
        applied = condition(work.status.conditions, APPLIED)
        if answer is None or applied is None or applied.reason == NAMESPACE_USED:
            return NOTHING  # what is not ours is not watched
        if answer.code == 404:
            return self._vanished(work, applied, now=now)
        if not answer.ok or work.metadata.deletion_timestamp is not None:
            return NOTHING
        held: dict[str, Any] = answer.body
        status = ManifestStatus(_identifier(held), reflected(held), health(held))
        changed = work.with_status(manifest_statuses=(status,))
        if changed is work:
            return NOTHING
        return Decision(changes=(Put(changed, work),), events=tuple(_first(work)), reason="StatusReflected")

    def _vanished(self, work: Work, applied: Condition, *, now: datetime) -> Decision:
        """Return the Work whose object is gone: applied again, or, where the Work is being removed, released."""
        if work.metadata.deletion_timestamp is not None:
            said = Condition(APPLIED, "False", REMOVED, "The object is no longer on the member.")
            return _without_object(work, said, now=now)
        if applied.status != "True":
            return NOTHING
        retained = Condition(RETAINED, "False", OBJECT_LOST, "The member does not keep the object.")
        shaky = work.with_status(conditions=with_condition(work.status.conditions, retained, now=now))
        said = Condition(APPLIED, "False", OBJECT_LOST, "The object is no longer on the member; it is applied again.")
        lost = shaky.with_status(conditions=with_condition(shaky.status.conditions, said, now=now))
        if wait := wait_before_reapply(lost).total_seconds():
            why = "it was lost before, and something on the member deletes it"
            said = replace(said, message=f"{said.message[:-1]} in {wait:g} s: {why}.")
        told = Event(work, OBJECT_LOST, said.message, warning=True)
        changed = shaky.with_status(
            conditions=with_condition(shaky.status.conditions, said, now=now), manifest_statuses=()
        )
        return Decision(changes=(Put(changed, work),), events=(told,), reason=OBJECT_LOST)


def _first(work: Work) -> Iterator[Event]:
    """Yield the Events of a Work whose copy on the member is reported for the first time; later reports have none."""
    if not work.status.manifest_statuses:
        yield Event(work, "ReflectStatusSucceed", f"Reflect status of cluster {work.cluster} succeed.", step=True)
        yield Event(work, "InterpretHealthSucceed", f"Interpret health on cluster {work.cluster} succeed.", step=True)


def _without_object(work: Work, said: Condition, *, now: datetime) -> Decision:
    conditions = with_condition(work.status.conditions, said, now=now)
    changed = work.with_status(conditions=conditions, manifest_statuses=())
    return NOTHING if changed is work else Decision(changes=(Put(changed, work),), reason=said.reason)


def reflected(held: dict[str, Any]) -> dict[str, Any] | None:
    """Return the status to carry back: what the kind's rule picks, the whole status where there is no rule."""
    rule = interpret.interpreter_for(held.get("apiVersion", ""), held.get("kind", "")).reflect
    return held.get("status") or None if rule is None else rule(held)


def health(held: dict[str, Any]) -> str:
    """Return Healthy or Unhealthy by the kind's rule, Healthy where it has none, Unknown where the rule cannot tell."""
    rule = interpret.interpreter_for(held.get("apiVersion", ""), held.get("kind", "")).healthy
    try:
        return HEALTHY if rule is None or rule(held) else UNHEALTHY
    except (KeyError, TypeError, ValueError):
        return UNKNOWN


def _identifier(held: dict[str, Any]) -> ResourceIdentifier:
    group, _, version = held.get("apiVersion", "").rpartition("/")
    metadata = held.get("metadata", {})
    return ResourceIdentifier(
        group=group,
        version=version,
        kind=held.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )

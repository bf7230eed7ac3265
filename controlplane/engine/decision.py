"""What a controller decided: changes to store, Events, conditions for storing them, and the time to look again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from controlplane.apimachinery.meta import Object, Ref, to_seconds


class Put(msgspec.Struct, frozen=True, gc=False):
    """Create or update an object. `new` was made from `old`; `old` None: the object must not exist yet.

    Only the parts (labels, spec, status, …) in which `new` differs from `old` are written. A writer of the status and
    a writer of the spec therefore never conflict (`merge.merge_change`).

    exact: the change is lost if anything in the object has changed since `old`, as a PUT with a resourceVersion is.
    upon: names of parts that must still be as in `old` although they are not written, because `new` depends on them.
    """

    new: Object
    old: Object | None
    exact: bool = False
    upon: tuple[str, ...] = ()


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete an object: at once if it has no finalizers, else by setting its deletionTimestamp. `exact` as in Put."""

    old: Object
    exact: bool = False


def deleting(obj: Object, *, now: datetime) -> Delete:
    """Return the Delete of an object, with the deletionTimestamp to set if finalizers keep the object for now."""
    stamp = obj.metadata.deletion_timestamp or to_seconds(now)
    return Delete(obj.with_meta(deletion_timestamp=stamp, deletion_grace_period_seconds=0))


def with_new_generation(obj: Object) -> Object:
    """Return an object whose deletion begins with its generation raised, as Kubernetes does."""
    if not obj.metadata.generation:
        return obj
    return obj.with_meta(generation=obj.metadata.generation + 1)


class Save(msgspec.Struct, frozen=True, gc=False):
    """Store a row-native value (`kinds.rows`). It has no version and no change log; the last writer wins.

    `old`: the value as the writer read it, for watches that compare; None: there was none, or it is not compared.
    """

    row: Any
    old: Any = None


class Drop(msgspec.Struct, frozen=True, gc=False):
    """Remove a row-native value. A newer value under its key stays, if its type has a time of creation (`Row.MADE`)."""

    row: Any


ROW_CHANGES: Final = (Save, Drop)  # for isinstance(), which takes a tuple faster than a union


class Event(msgspec.Struct, frozen=True, gc=False):
    """A Kubernetes Event about the object `about`. Repeated Events are stored as one object with a count.

    `step`: the Event reports an ordinary step that succeeded. Events of steps are left out when many objects take the
    step in one batch, because each Event is a row as large as the change that it reports
    (`unstorable.MAX_DECISIONS_WITH_STEPS`).
    """

    about: Object
    reason: str
    message: str
    warning: bool = False
    step: bool = False
    by: str = ""  # the name of the reporting controller; "": the writer of the decision


class Guard(msgspec.Struct, frozen=True, gc=False):
    """A condition for storing a decision: an object that was only read still has this generation (None: is absent).

    A reference with the name EVERY stands for all objects of its kind. `generation` is then the newest resourceVersion
    among them (None: there are none), so that no object of the kind may have been created or changed.
    """

    ref: Ref
    generation: int | None


class CapacityGuard(msgspec.Struct, frozen=True, gc=False):
    """A condition for storing a decision: its reservations still fit on `cluster`.

    seen: the number of the newest reservation that the deciding controller had read (`ReservedCapacity.seen`).
    spare: by resource, how much other controllers may have reserved since then; the resource "" is pods. Reservations
    of the deciding controller itself do not count against `spare`, because its own ledger already has them.
    """

    cluster: str
    seen: int
    spare: tuple[tuple[str, int], ...]


class QuotaGuard(msgspec.Struct, frozen=True, gc=False):
    """A condition for storing a decision: the quotas of `namespace` still have room for what it adds.

    more: by resource, how much the bindings of the namespace use more after the decision.
    most: by resource, how much they may use together after it. Resources without a limit are left out.
    """

    namespace: str
    more: tuple[tuple[str, int], ...]
    most: tuple[tuple[str, int], ...]


class Followed(msgspec.Struct, frozen=True, gc=False):
    """The decision of another controller that is contained in a decision (`cascade`).

    ref: the object that it is about. That object is not due again for the controller by what the decision writes.
    refs: the objects that only the other controller writes. The change log names it, and `reason`, as their writer.
    again_after: the object is due for the controller so long after the write. None: only after something has changed.
    """

    controller: str
    ref: Ref
    reason: str = ""
    refs: tuple[Ref, ...] = ()
    again_after: timedelta | None = None


EVERY = "*"


def unchanged(kind: str, objects: Iterable[Object]) -> Guard:
    """Return the guard that `objects` are still all objects of the kind, and none of them has changed."""
    return Guard(Ref(kind, "", EVERY), newest(objects))


def newest(objects: Iterable[Object]) -> int | None:
    """Return the newest resourceVersion among objects; None if there are no objects."""
    return max((int(obj.metadata.resource_version or 0) for obj in objects), default=None)


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What to store about one object. All changes are stored, or none: a lost change makes the object due again.

    guards, capacity_guards, quota_guards: conditions under which the decision may be stored.
    wake_at: when to decide about the object again. None: only after something about it has changed.
    reason: the name of the rule that was applied; kept in the change log.
    cause: the resourceVersion of the change that the controller reacted to; 0: unknown. Kept in the change log.
    separate_decisions: further decisions, each stored or lost on its own.
    followed: decisions of other controllers that are contained in this one and are stored or lost with it.
    found: what a controller that follows this decision may use and need not find out again. It is not stored.
    """

    changes: tuple[Put | Delete | Save | Drop, ...] = ()
    events: tuple[Event, ...] = ()
    guards: tuple[Guard, ...] = ()
    capacity_guards: tuple[CapacityGuard, ...] = ()
    quota_guards: tuple[QuotaGuard, ...] = ()
    wake_at: datetime | None = None
    reason: str = ""
    cause: int = 0
    separate_decisions: tuple[Decision, ...] = ()
    followed: tuple[Followed, ...] = ()
    found: Any = None


NOTHING = Decision()


def author(decision: Decision, ref: Ref, *, by: str) -> tuple[str, str]:
    """Return who writes an object of a decision, and the reason, as the change log has them. `by`: the writer."""
    for followed in decision.followed:
        if ref in followed.refs:
            return followed.controller, followed.reason
    return by, decision.reason

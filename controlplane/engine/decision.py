"""What a controller decided: changes, events, guards, and when to look again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from controlplane.apimachinery.meta import Object, Ref, to_seconds


class Put(msgspec.Struct, frozen=True, gc=False):
    """Store `new`, which was made from `old` (None: it must not exist yet).

    Parts of the object (labels, spec, status, …) that differ from `old` are written; the others keep what is stored, so
    spec and status writers never fight (`settle.settle`). `upon`: parts that have to be as in `old` although they are
    not written, for `new` rests on them. `exact`: lose to any change at all, as a PUT with a resourceVersion does.
    """

    new: Object
    old: Object | None
    exact: bool = False
    upon: tuple[str, ...] = ()


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Delete the object: at once without finalizers, else by setting its deletionTimestamp. `exact` as in Put."""

    old: Object
    exact: bool = False


def deleting(obj: Object, *, now: datetime) -> Delete:
    """Return the deletion of an object, stamped for the case that finalizers keep it for a while."""
    stamp = obj.metadata.deletion_timestamp or to_seconds(now)
    return Delete(obj.with_meta(deletion_timestamp=stamp, deletion_grace_period_seconds=0))


class Save(msgspec.Struct, frozen=True, gc=False):
    """Keep a row-native value (`kinds.rows`): no version, no log; the last writer wins."""

    row: Any


class Drop(msgspec.Struct, frozen=True, gc=False):
    """Forget a row-native value; a later one under its key stays, where its type tells them apart (`Row.MADE`)."""

    row: Any


class Event(msgspec.Struct, frozen=True, gc=False):
    """A Kubernetes Event about `about`; stored as one Event object per (about, reason, reporter, message), counted.

    `step`: an ordinary step went well. Events of steps are left out where many objects take the step at once, as each
    is a row as large as the change it tells of (`run.MAX_DECISIONS_WITH_STEPS`).
    """

    about: Object
    reason: str
    message: str
    warning: bool = False
    step: bool = False


class Guard(msgspec.Struct, frozen=True, gc=False):
    """The decision holds only while this object, which it only read, keeps its generation (None: absent).

    Named EVERY it stands for a whole kind: `generation` is then the newest resourceVersion of it (None: there is none),
    and nothing of it is made or changed meanwhile.
    """

    ref: Ref
    generation: int | None


class CapacityGuard(msgspec.Struct, frozen=True, gc=False):
    """The decision is stored only while its reservations still fit on `cluster`.

    `seen`: the newest reservation that the deciding controller had read (`ReservedCapacity.seen`). `spare`: by
    resource, how much other controllers may have reserved since then; the resource "" is pods. Reservations of the
    deciding controller itself do not count against `spare`, because its own ledger already has them.
    """

    cluster: str
    seen: int
    spare: tuple[tuple[str, int], ...]


EVERY = "*"


def unchanged(kind: str, objects: Iterable[Object]) -> Guard:
    """Return the guard that these are all there are of a kind, and as they were read."""
    return Guard(Ref(kind, "", EVERY), newest(objects))


def newest(objects: Iterable[Object]) -> int | None:
    """Return the newest resourceVersion among objects; None where there is none."""
    return max((int(one.metadata.resource_version or 0) for one in objects), default=None)


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All or nothing: one losing change drops the whole decision back to due.

    `wake_at` None: look again only when something changes. `cause` is the resourceVersion of the change acted upon
    (0 unknown); `reason` the rule's name, both kept in the change log. `riders` are decisions of their own, each whole
    or not at all: what one of them loses costs the others nothing.
    """

    changes: tuple[Put | Delete | Save | Drop, ...] = ()
    events: tuple[Event, ...] = ()
    guards: tuple[Guard, ...] = ()
    capacity_guards: tuple[CapacityGuard, ...] = ()
    wake_at: datetime | None = None
    reason: str = ""
    cause: int = 0
    separate_decisions: tuple[Decision, ...] = ()


NOTHING = Decision()

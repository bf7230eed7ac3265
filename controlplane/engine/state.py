"""The protocols for reading and writing state. MemoryStore and the database store implement them.

Three things are stored: objects, which have a resourceVersion and a change log; row-native values (`kinds.rows`), which
have neither; and due rows, which say which controller must look at which object, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.decision import Decision
from controlplane.kinds.rows import CapacityReservation, QueuePosition, Row


class LeaseLost(Exception):
    """Another process has taken the lease under which a batch was to be written. Nothing of the batch was written."""


START = ("", "")  # before the first (namespace, name)
NONE_KEEPS: Mapping[str, str] = {}


class Unreadable(Exception):
    """A stored object cannot be read, for example because this process lacks the key of a Secret."""


class Unstorable(Exception):
    """The store cannot hold a value in a decision, for example a number that is too large or a text that is too long.

    `written`: the outcomes of the first decisions of the batch. They are stored, because a batch may take several
    transactions.
    """

    def __init__(self, message: str, written: Sequence[Outcome] = ()) -> None:
        super().__init__(message)
        self.written = tuple(written)


class Selection(NamedTuple):
    """A query for the objects of a kind in a namespace that match a label selector."""

    kind: str
    namespace: str
    labels: LabelSelector


class ReservedCapacity(msgspec.Struct, frozen=True):
    """Reservations of capacity that no report of a member counts yet, all read at the same moment.

    totals: (cluster, request, replicas), summed over all bindings.
    own: the reservations of the bindings that were asked for, by binding.
    at: when they were read; None: they were not read.
    seen: the number of the newest reservation. Every later reservation has a higher number.
    """

    totals: Sequence[tuple[str, str, int]] = ()
    own: Mapping[str, Sequence[CapacityReservation]] = {}
    at: datetime | None = None
    seen: int = 0


class State(Protocol):
    """Reading. Each call makes a constant number of queries, whatever the number of references or values."""

    def legible(self) -> LegibleState:
        """Return what is stored as far as it can be read. What is decided about an object must not rest on this."""

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        """Return the objects that exist, by reference. References without an object are left out.

        unopened: see `list`.
        """

    def lease_held_until(self, name: str) -> datetime | None:
        """Return the time until which the lease is held, or was held last; None: it was never taken."""

    def list(
        self, kind: str, *, namespace: str = "", after: tuple[str, str] = START, limit: int = 0, unopened: bool = False
    ) -> Sequence[Any]:
        """Return the objects of a kind after (namespace, name) `after`, in that order.

        namespace "": all namespaces. limit 0: no limit. unopened: values of Secrets that cannot be decrypted are
        `Unopened` values, for those who need none of them; otherwise raises Unreadable.
        """

    def refs(
        self,
        kind: str,
        *,
        namespace: str = "",
        name: str = "",
        any_of: Sequence[LabelSelector] = (),
        undeleted: bool = False,
        after: tuple[str, str] = START,
        limit: int,
    ) -> Sequence[Ref]:
        """Return one page of the references of a kind after (namespace, name) `after`, in that order.

        namespace, name "": all. any_of: only objects whose labels one of these selectors matches. Of Gt and Lt only the
        existence of the label counts. undeleted: only objects that are not being deleted. No document is read.
        """

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        """Return the objects under each value of a declared index, in (namespace, name) order.

        At most `limit` objects per value; 0: all. Values without objects are left out.
        """

    def refs_by_index(
        self,
        kind: str,
        index: str,
        value: str | Collection[str],
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> Sequence[Ref]:
        """Return one page of the references under one or several index values, in (namespace, name) order.

        Fan-outs that need only references use this.
        """

    def page_by_index(
        self, kinds: Sequence[str], index: str, values: Collection[str], *, after: Ref | None = None, limit: int = 1000
    ) -> Sequence[Any]:
        """Return one page of the objects of several kinds under any of the index values, after the reference `after`.

        Fan-outs that must read the objects use this. All the kinds must be stored in the same table. Values of Secrets
        that cannot be decrypted are `Unopened` values.
        """

    def count_by_index(self, kind: str, index: str, value: str, *, after: tuple[str, str] = ("", "")) -> int:
        """Return the number of objects under an index value after `after`, in (namespace, name) order."""

    def selected(self, selections: Collection[Selection]) -> dict[Selection, Sequence[Any]]:
        """Return the objects that match each selection, in (namespace, name) order. Empty selections are left out."""

    def owned(
        self, owners: Collection[str], *, keeping: Mapping[str, str] = NONE_KEEPS, limit: int
    ) -> dict[str, Sequence[Any]]:
        """Return the dependents of each owner: objects of any kind that name the owner in their ownerReferences.

        `owners` are references as text. `keeping`: those that keep what they own, with their uids. Per owner at most
        `limit` objects are returned: first those that can be deleted, then those that the owner keeps, then those that
        stay for now (`deletion_protection.deletion_turn`), each in the order of their references.
        """

    def rows(
        self, type_: type[Row], index: str, values: Collection[str], *, known: Collection[Any] = ()
    ) -> dict[str, Sequence[Any]]:
        """Return the row-native values under each value of a declared index, or of "key" (`kinds.rows`).

        `known`: some of them, which the caller has just read. They need not be read again.
        """

    def values(self, type_: type[Row], index: str) -> Collection[str]:
        """Return the distinct values of a declared index of a type of row-native values."""

    def queue_heads(self, *, limit: int, per_cluster: bool = False) -> Sequence[Any]:
        """Return the head of the eviction queue: per priority the first `limit` evictions in (due_at, key) order.

        Held evictions are left out; evictions that are not due yet are included [eviction-queue].
        per_cluster: each cluster with evictions gets an equal share of `limit`, at least one eviction, so that the
        evictions of one cluster cannot delay those of another (setting eviction.bucket_scope "Cluster").
        """

    def held_evictions(self, *, after: QueuePosition | None, limit: int) -> Sequence[Any]:
        """Return the page of held evictions after a queue position, in queue order; `after` None: the first page."""

    def queued_between(self, begin: datetime, end: datetime, *, after: str, limit: int) -> Sequence[Any]:
        """Return one page of the evictions that were queued from `begin` on and before `end`, and are still queued.

        They are in the order of their keys; `after`: the key before the first one, "" for the first page. Rows of
        copies that stay are left out.
        """

    def next_eviction(self) -> datetime | None:
        """Return the earliest due time of an eviction that is not held; None: there is no such eviction."""

    def kinds_on_members(self) -> Collection[tuple[str, str, str]]:
        """Return the (cluster, apiVersion, kind) of the manifests of all Works: what the members process must watch."""

    def works_of(self, key: tuple[str, str, str]) -> Sequence[Ref]:
        """Return the Works whose manifest has this (cluster, apiVersion, kind), in the order of their references."""

    def evictions_by_cluster(self) -> dict[str, int]:
        """Return the number of waiting evictions of each cluster that has some."""

    def quota_use(self, namespaces: Collection[str]) -> dict[str, dict[str, int]]:
        """Return by namespace what its bindings request on all clusters together, by resource (`estimate.quota`).

        Namespaces without any are left out.
        """

    def reserved_capacity(
        self, *, within: timedelta, bindings: Collection[str] = (), totals: bool = True
    ) -> ReservedCapacity:
        """Return the total of the reservations made within the last `within`, and all reservations of `bindings`.

        Both come from one reading, so a binding's own reservations of that time are contained in the totals. `totals`
        False: reservations are not summed up, which takes longer the more there are.
        """


class LegibleState(State, Protocol):
    """A State in which a document that cannot be read is an empty object of its name, for those who look for names.

    Values whose key is lost are `Unopened` values. `unread`: which documents could not be read until now, and why.
    """

    @property
    def unread(self) -> Mapping[Ref, Unreadable]: ...


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One due object that was handed to a controller.

    seq: the number of the due row when it was claimed. A later mark raises it, so that the object stays due.
    cursor: the last chunk that a fan-out has finished; "" at its beginning.
    bundled: the object has no due row of its own; a bundle names it (`Watch.bundled`).
    """

    controller: str
    ref: Ref
    seq: int
    cursor: str = ""
    bundled: bool = False


class Claims(msgspec.Struct, frozen=True, gc=False):
    """A batch of claims. `now` is the time of this turn, by the database's clock.

    bundles: due rows that name several objects each (`Watch.bundled`). These objects are among `claims`. The rows stay
    until `Store.advance` ends them, which is done when all of `claims` have ended.
    more: a bundle is due that would make the batch too large.
    """

    now: datetime
    claims: tuple[Claim, ...]
    bundles: tuple[Claim, ...] = ()
    more: bool = False


class HeldLease(msgspec.Struct, frozen=True, gc=False):
    """A lease that a process held when it started to decide. `apply` refuses to write under an older `epoch`.

    `returned`: the holder before returned it, so it works on nothing any more. False: it did not, or that is not known.
    """

    name: str
    shard: int
    epoch: int
    returned: bool = False


class Actor(msgspec.Struct, frozen=True, gc=False):
    """The writer: the name of a user, or of a controller (`controller` True). Kept in the change log."""

    name: str
    controller: bool = False


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """The result of storing one decision. `lost`: "" if it was stored, else the reason and the object."""

    lost: str = ""
    versions: tuple[int, ...] = ()  # resourceVersion per change, 0 where nothing was written
    # Stored object per change; None for row-native values and removals. Empty for controllers, which do not need them.
    objects: tuple[Object | None, ...] = ()


Complete = Callable[[Sequence[Decision]], Sequence[Decision]]
"""Returns for each of some decisions the one that is written in its place. It may be asked again about a decision."""


class Store(State, Protocol):
    """State plus writing. Objects and row-native values are written by `apply` only."""

    def now(self) -> datetime:
        """Return the time of the store's clock, in UTC with a timezone."""

    def claim(self, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float) -> Claims:
        """Return up to `limit` due objects of a shard as claims, the longest due first.

        Other processes cannot claim them for `lease_seconds`; 0: they are not protected.
        """

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        lease: HeldLease | None = None,
        dry_run: bool = False,
        complete: Complete | None = None,
    ) -> Sequence[Outcome]:
        """Write decisions, each as a whole or not at all, and finish their claims.

        `complete` is called with one part of the decisions after the other, or with all of them, and returns what is
        written in their place. So the next part can be decided while the last one is written.

        Finishing removes the due row, or sets it to `wake_at`. If the object was marked after it was claimed, the row
        stays due. The claim of a lost decision is due again at once.
        Raises LeaseLost, and Unstorable if a decision cannot be stored; decisions before it may have been written
        (`unstorable.apply_decisions` handles the latter).
        """

    def release(self, claims: Sequence[Claim], *, due_at: datetime | None = None) -> None:
        """Give claims back unfinished. Their objects are due at once, or at `due_at`.

        An object that was marked meanwhile is due as it was marked.
        """

    def mark(self, controller: str, refs: Collection[Ref], *, due_at: datetime | None = None) -> None:
        """Make objects due for a controller at `due_at`; None: now. An object that is due earlier stays so."""

    def advance(self, claims: Sequence[Claim], refs: Collection[Ref], *, cursor: str | None) -> None:
        """Mark one chunk of a fan-out due and store its cursor, in one transaction; cursor None ends the fan-out.

        `claims`: the origins of the fan-out, all of one controller.
        """

    def take_lease(self, name: str, shard: int, *, holder: str, seconds: float) -> HeldLease | None:
        """Take or renew a lease and return it. None: another holder has it and it has not expired."""

    def drop_lease(self, lease: HeldLease, *, holder: str) -> None:
        """End a lease at once if `holder` still holds it under this epoch."""

    def next_due(self, controllers: Collection[str]) -> datetime | None:
        """Return when the next due row of these controllers can be claimed; None: they have no due rows."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One entry of the change log. `cause`: resourceVersion of the change that the writer reacted to; 0: unknown."""

    version: int
    type: str  # ADDED, MODIFIED, DELETED
    ref: Ref
    document: bytes
    old_document: bytes | None
    actor: str
    reason: str
    cause: int
    at: datetime


class Watch(msgspec.Struct, frozen=True):
    """Which objects become due for a controller when an object of a kind changes.

    kind: a kind's key; "*": every template; "row/Observation": row-native values of that type (old None: stored, new
    None: removed).
    to: returns the references that become due, from the old and the new object. old None: created; new None: removed.
    fan_out: the references are no objects of this controller, but origins that each concern many of its objects.
    `Controller.expand_all` turns origins into their objects, chunk by chunk.
    after: the references become due this much later than the change, unless another change makes them due earlier.
    For changes that are usually followed by another change within that time.
    delay: computes `after` from the old and the new object; None: `after` holds for every change.
    bundled: references that become due in one write share a due row, which costs a store less. Not for controllers with
    shards. Later marks of the same objects are not merged with it, so it is for changes that many objects have at once
    and each of them seldom, as evictions are.
    """

    kind: str
    to: Callable[[Any, Any], Iterable[Ref]]
    fan_out: bool = False
    after: timedelta = timedelta(0)
    delay: Callable[[Any, Any], timedelta] | None = None
    bundled: bool = False


class Mark(NamedTuple):
    """A controller must look at an object, `after` so long. Sorted, the earliest mark of each object comes first."""

    controller: str
    ref: Ref
    after: timedelta = timedelta(0)
    bundled: bool = False  # see `Watch.bundled`

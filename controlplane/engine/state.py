"""How state is read and written: the protocols that MemoryStore and the database store fulfil."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

import msgspec

from controlplane.apimachinery.meta import Object, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine.decision import Decision
from controlplane.kinds.rows import Place, Promise, Row


class Fenced(Exception):
    """The lease a batch was to be written under has passed to somebody else; nothing of it was written."""


class Unstorable(Exception):
    """Something among the decisions of a batch cannot be kept: a number too large, a text too long to be found by.

    `written`: the outcomes of the first decisions, which are stored all the same: not all fit into one transaction.
    """

    def __init__(self, message: str, written: Sequence[Outcome] = ()) -> None:
        super().__init__(message)
        self.written = tuple(written)


class Selection(NamedTuple):
    """Objects of a kind in a namespace, chosen by their labels."""

    kind: str
    namespace: str
    labels: LabelSelector


class ReservedCapacity(msgspec.Struct, frozen=True):
    """What is promised, as of one moment. `totals`: (cluster, request, replicas), added up over all bindings; `own`:
    the promises of some of them, by binding; `at` None: nobody asked for totals. `seen`: the number of the newest
    promise of all; whatever is promised later has a higher number."""

    totals: Sequence[tuple[str, str, int]] = ()
    own: Mapping[str, Sequence[Promise]] = {}
    at: datetime | None = None
    seen: int = 0


class State(Protocol):
    """Reading. Every call costs a constant number of queries, however many refs or values it is given."""

    def get(self, refs: Collection[Ref]) -> dict[Ref, Any]:
        """Return the objects that exist among `refs`."""

    def lease_held_until(self, name: str) -> datetime | None:
        """Return up to when a lease of that name is held, or was held last; None: nobody ever took one."""

    def list(
        self, kind: str, *, namespace: str = "", after: tuple[str, str] = ("", ""), limit: int = 0
    ) -> Sequence[Any]:
        """Return objects in (namespace, name) order beyond `after`; namespace "" means all, limit 0 no limit."""

    def by_index(self, kind: str, index: str, values: Collection[str], *, limit: int = 0) -> dict[str, Sequence[Any]]:
        """Return the objects found under each of the values of a declared index, in (namespace, name) order; of each
        value the first `limit`, 0: all."""

    def refs_by_index(
        self,
        kind: str,
        index: str,
        value: str | Collection[str],
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> Sequence[Ref]:
        """Return one page of the references under an index value, or under any of several, in (namespace, name) order:
        for fan-out."""

    def page_by_index(
        self, kinds: Sequence[str], index: str, values: Collection[str], *, after: Ref | None = None, limit: int = 1000
    ) -> Sequence[Any]:
        """Return one page of the objects of several kinds that are under any of the values, in the order of their
        references beyond `after`: for a fan-out that has to look at them. The kinds are kept in one table."""

    def count_by_index(self, kind: str, index: str, value: str, *, after: tuple[str, str] = ("", "")) -> int:
        """Return how many objects there are under an index value beyond `after` in (namespace, name) order."""

    def selected(self, selections: Collection[Selection]) -> dict[Selection, Sequence[Any]]:
        """Return the objects each selection chooses, in (namespace, name) order."""

    def owned(self, owners: Collection[str], *, limit: int) -> dict[str, Sequence[Any]]:
        """Return up to `limit` objects of any kind that name each owner (a reference as text) in their ownerReferences,
        those first that are not being deleted, then in order of their references."""

    def rows(self, type_: type[Row], index: str, values: Collection[str]) -> dict[str, Sequence[Any]]:
        """Return row-native values by one of their declared indexes (`kinds.rows`)."""

    def values(self, type_: type[Row], index: str) -> Collection[str]:
        """Return the values that row-native values have under one of their declared indexes, each once."""

    def queue_heads(self, *, limit: int, per_cluster: bool = False) -> Sequence[Any]:
        """Return evictions that are not held, due or not: per priority the first `limit` in (due_at, key) order (D7).

        `per_cluster`: of each cluster that has any an equal share of `limit`, one at least, so that none keeps another
        out (eviction.bucket_scope Cluster).
        """

    def held_evictions(self, *, after: Place | None, limit: int) -> Sequence[Any]:
        """Return one page of the held evictions, in the queue's order beyond a place."""

    def next_eviction(self) -> datetime | None:
        """Return the earliest due time of an eviction that is not held; None where there is none."""

    def kinds_on_members(self) -> Collection[tuple[str, str, str]]:
        """Return every (cluster, apiVersion, kind) some Work's manifest is of: what the members process watches."""

    def works_of(self, key: tuple[str, str, str]) -> Sequence[Ref]:
        """Return the Works for a cluster whose manifest is of an apiVersion and kind, in order of their references."""

    def evictions_by_cluster(self) -> dict[str, int]:
        """Return how many evictions wait per cluster."""

    def reserved_capacity(self, *, within: timedelta, bindings: Collection[str] = ()) -> ReservedCapacity:
        """Return what was promised within so long before now, and all promises of these bindings, in one look: what a
        binding is given back has been counted."""


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One object a controller has been asked to look at. `cursor`: how far a fan-out has come."""

    controller: str
    ref: Ref
    seq: int
    cursor: str = ""


class Claims(msgspec.Struct, frozen=True, gc=False):
    """A batch of claims and the moment of this tick, by the database's clock."""

    now: datetime
    claims: tuple[Claim, ...]


class Fence(msgspec.Struct, frozen=True, gc=False):
    """The lease a batch is written under; apply refuses when its epoch has passed."""

    name: str
    shard: int
    epoch: int


class Actor(msgspec.Struct, frozen=True, gc=False):
    """Who writes: a controller's name or a user's. Kept in the change log."""

    name: str
    controller: bool = False


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """What became of one decision. `lost`: "" when stored, else why it was dropped (conflict, guard, exists, gone)."""

    lost: str = ""
    versions: tuple[int, ...] = ()  # resourceVersion per change, 0 where nothing was written
    objects: tuple[Object | None, ...] = ()  # as stored, per change; None for rows and removed objects


class Store(State, Protocol):
    """State plus writing. `apply` is the only writer there is."""

    def now(self) -> datetime:
        """Return the store's clock: aware UTC."""

    def claim(self, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float) -> Claims:
        """Return due claims, oldest first, and hide them from others for `lease_seconds`; 0: from nobody."""

    def apply(
        self,
        decisions: Sequence[tuple[Claim | None, Decision]],
        *,
        by: Actor,
        fence: Fence | None = None,
        dry_run: bool = False,
    ) -> Sequence[Outcome]:
        """Write the decisions, each whole or not at all, and finish their claims (remove or set to wake_at where no new
        mark came in between). Raises `Fenced` when the lease is lost; nothing is written then. Raises `Unstorable`
        where one of them cannot be kept: of the others some may have been written (see `run.apply_decisions`)."""

    def release(self, claims: Sequence[Claim], *, due_at: datetime | None = None) -> None:
        """Give claims back unfinished, due at once or at `due_at` (back-off)."""

    def mark(self, controller: str, refs: Collection[Ref], *, due_at: datetime | None = None) -> None:
        """Make objects due for a controller; an earlier due time wins."""

    def advance(self, claim: Claim, refs: Collection[Ref], *, cursor: str | None) -> None:
        """Work off one chunk of a fan-out: mark `refs` due and keep the cursor; None ends it. One transaction."""

    def take_lease(self, name: str, shard: int, *, holder: str, seconds: float) -> Fence | None:
        """Return a fence when the lease is free, expired or ours (then renewed); None while another holds it."""

    def drop_lease(self, fence: Fence, *, holder: str) -> None:
        """End a lease of ours at once."""

    def next_due(self, controllers: Collection[str]) -> datetime | None:
        """Return when the earliest unclaimed due row of these controllers falls due; None where there is none."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """One line of the change log."""

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
    """Which changes make which objects due. `to(old, new)` gives the refs; either side is None on create and delete.

    `fan_out`: the refs are not objects of this controller but the origin of many of them; the run loop expands them
    chunk by chunk through `Controller.expand`. `after`: they are due this much later, unless something else makes them
    due before: for changes after which somebody else will have made the next one by then.
    """

    kind: str  # a kind's key; "*" every template; "row/Observation" rows (old None: kept, new None: dropped)
    to: Callable[[Any, Any], Iterable[Ref]]
    fan_out: bool = False
    after: timedelta = timedelta(0)


class Mark(NamedTuple):
    """Who has to look at what, and how much later than the change; sorted, the earliest of one controller and object
    comes first."""

    controller: str
    ref: Ref
    after: timedelta = timedelta(0)

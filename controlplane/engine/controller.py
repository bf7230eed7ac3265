"""The interface of all controllers: load snapshots, ask a question if there is one, decide, apply.

One turn of a controller is one call of `run.run_batch`:

1. `Store.claim` returns up to `batch` objects that are due, and the time of the turn (`now`, the database's clock).
2. `load` reads everything the decisions need, for all claimed objects in a constant number of queries.
3. `ask` may return a question for the outside world, for example how many eviction tokens are left.
4. `decide` turns each snapshot into a `Decision`: changes, Events, and the time to look at the object again.
5. `Store.apply` writes each decision as a whole or not at all, and removes or reschedules the due rows.

`controllers/cluster_taints.py` is the model to copy for a new controller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Guard
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER
from controlplane.settings import Settings


class Ownership(msgspec.Struct, frozen=True):
    """What a controller may write: parts or fields of each kind, and types of row-native values.

    `kinds` maps a kind's key ("*": every template) to dotted paths such as "spec.clusters" or "status". The path "*"
    allows everything; "create" and "delete" allow making and deleting objects. `apply` refuses every other write.
    """

    kinds: dict[str, tuple[str, ...]]
    rows: tuple[type, ...] = ()


class Inquiry(msgspec.Struct, frozen=True):
    """What a controller asks the outside world before it decides.

    `snapshots` replace those that `ask` was called with, in the same order. `question` None: there is nothing to ask.
    """

    snapshots: Sequence[Any]
    question: Any = None


class Controller:
    """One controller. Its decisions depend only on what `load` returns, the settings, `now` and the answer to `ask`.

    Attributes of an instance are caches: they may save work and never change a decision.

    name: the controller's name in settings, metrics, due rows and the change log.
    group: the controllers that one process runs together: fleet, failover, scheduling, propagation or members.
    keys: the kinds of the objects it decides about. A claimed reference of another kind is the origin of a fan-out.
    watches: which changes make which objects due.
    owns: what it may write.
    shards: how many processes may work for it at the same time; each object belongs to one shard.
    batch: how many objects one turn claims at most.
    cursor_form: changes whenever the form of the cursors of its fan-outs does. A process of another release, before or
    after, then begins the fan-out again, instead of taking the cursor for another place.
    decides_in_fan_out: a fan-out decides its objects chunk by chunk instead of making each of them due.
    creates_separately: if another object has the name of one that a decision creates, its other creations and updates
    are stored. Otherwise all of it waits.
    due_at_start: references that become due whenever a process starts, although nothing about them changed.
    followed_by: controllers that decide at once about what this one writes, in order. Their decisions are stored with
    those of this one (`cascade`): controllers of the same group about the objects that it creates and about the claimed
    object, a controller of another group about the objects that its separate decisions change. If a controller of
    the same group is named after the one of another group, it changes nothing there. Only the time of its next look is
    stored (`looking`).
    """

    name: ClassVar[str]
    group: ClassVar[str]
    keys: ClassVar[tuple[str, ...]]
    watches: ClassVar[tuple[Watch, ...]]
    owns: ClassVar[Ownership]
    shards: ClassVar[int] = 1
    batch: ClassVar[int] = 500
    cursor_form: ClassVar[str] = ""
    decides_in_fan_out: ClassVar[bool] = False
    creates_separately: ClassVar[bool] = False
    due_at_start: ClassVar[tuple[Ref, ...]] = ()
    followed_by: ClassVar[tuple[str, ...]] = ()

    def informed(self, snapshot: Any, found: Any) -> Any:
        """Return a snapshot with what the decision that this controller follows has found (`Decision.found`)."""
        return snapshot

    def rests_on(self, snapshot: Any, decision: Decision) -> Sequence[Guard] | None:
        """Return what must not have changed for a decision to be stored without the lease of this controller's group.

        None: it cannot be, because it rests on more than guards can compare.
        """
        return None

    def looking(self, state: State, settings: Settings, *, now: datetime) -> Callable[[Any], Decision | None]:
        """Return a function that decides about an object as it will be stored, and reads nothing more for that.

        It returns None for an object that it would change, or about which it has to read more. All that it needs is
        read before, in a constant number of queries.
        """
        raise NotImplementedError

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        """Return one snapshot per reference, in order, in a constant number of queries; None: nothing to decide."""
        raise NotImplementedError

    def load_for(self, state: State, refs: Sequence[Ref], settings: Settings) -> Sequence[Any]:
        """Return what `load` returns. A controller that reads less under some settings overrides this."""
        return self.load(state, refs)

    def ask(self, snapshots: Sequence[Any], settings: Settings, *, now: datetime) -> Inquiry:
        """Return the question to answer before `decide`, and the snapshots that `decide` is to be called with.

        Most controllers ask nothing. Work that both `ask` and `decide` need is done here and added to the snapshots.
        """
        return Inquiry(snapshots)

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        """Return the decision about one object. Pure: the same arguments give the same decision.

        A decision depends on the present state, not on what changed. Decided again after its own changes are stored,
        the object needs no further change.
        """
        raise NotImplementedError

    def decide_all(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        """Return the decision for each snapshot, or the exception that deciding it raised."""
        return [self.decide_or_error(snapshot, settings, now=now, answer=answer) for snapshot in snapshots]

    def deciding(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime
    ) -> Callable[[Sequence[Any]], list[Decision | Exception]]:
        """Return a function that decides about one part of the snapshots after the other, as `decide_all` does.

        A controller overrides this if its decisions about one part depend on those about the parts before.
        """
        return lambda part: self.decide_all(part, settings, now=now)

    def decide_or_error(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any) -> Decision | Exception:
        """Return the decision about one snapshot, or the exception that `decide` raised."""
        try:
            return self.decide(snapshot, settings, now=now, answer=answer)
        except Exception as error:  # noqa: BLE001  # the one broad catch: a fault in one object must not stop the others
            return error

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return the next chunk of the objects that a fan-out from `origin` concerns, and the cursor of that chunk.

        `after`: the cursor of the chunk before; "" for the first. A returned cursor of None ends the fan-out.
        """
        raise NotImplementedError

    def fan_out_of(self, origin: Ref) -> str:
        """Return the name of the fan-out that an origin belongs to. Usually each origin has a fan-out of its own.

        Due origins of the same fan-out are expanded together if they are at the same cursor (`expand_all`).
        """
        return str(origin)

    def expand_all(
        self, state: State, origins: Sequence[Ref], *, after: str, limit: int
    ) -> tuple[list[Ref], str | None]:
        """Return what `expand` returns, for origins of the same fan-out. A controller that joins origins overrides
        this."""
        (origin,) = origins
        return self.expand(state, origin, after=after, limit=limit)


def all_clusters(state: State, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one chunk of a fan-out to all clusters, and the cursor of the next; None: this chunk is the last."""
    clusters = state.list(CLUSTER, after=cursor_after(after), limit=limit)
    return page([cluster.ref for cluster in clusters], limit=limit)


def page(refs: Sequence[Ref], *, limit: int) -> tuple[list[Ref], str | None]:
    """Return a chunk of a fan-out and its cursor: "namespace/name" of its last reference.

    The cursor is None when the chunk has fewer than `limit` references, because it is then the last one.
    """
    last = refs[-1] if refs else None
    return list(refs), f"{last.namespace}/{last.name}" if last is not None and len(refs) >= limit else None


def cursor_after(cursor: str) -> tuple[str, str]:
    """Return the (namespace, name) that a cursor stands for; ("", "") for the empty cursor."""
    namespace, _, name = cursor.partition("/")
    return namespace, name

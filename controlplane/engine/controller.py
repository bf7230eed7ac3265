"""The one shape all controllers have: load, decide, apply. `cluster_taints.py` is the model to copy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

import msgspec

from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision
from controlplane.engine.state import State, Watch
from controlplane.kinds import CLUSTER
from controlplane.settings import Settings


class Ownership(msgspec.Struct, frozen=True):
    """What a controller may write: per kind the parts or fields, as dotted paths ("spec.clusters", "status", "*").

    "create" and "delete" allow those. `apply` refuses everything else; the ownership table in docs is made of these.
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

    `load` returns one snapshot per ref, in order (None: nothing to decide), in a constant number of queries.
    `decide` is pure and level-based: run twice, the second run changes nothing.
    """

    name: ClassVar[str]
    group: ClassVar[str]  # processes run groups: "fleet", "propagation", "eviction", "members"
    keys: ClassVar[tuple[str, ...]]  # kinds of its keys; a claimed ref of another kind is a fan-out origin
    watches: ClassVar[tuple[Watch, ...]]
    owns: ClassVar[Ownership]
    shards: ClassVar[int] = 1
    batch: ClassVar[int] = 500
    decides_in_fan_out: ClassVar[bool] = False
    due_at_start: ClassVar[tuple[Ref, ...]] = ()

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        raise NotImplementedError

    def ask(self, snapshots: Sequence[Any], settings: Settings, *, now: datetime) -> Inquiry:
        """Return the question to answer before `decide`, and the snapshots that `decide` is to be called with.

        Most controllers ask nothing. Work that both `ask` and `decide` need is done here and added to the snapshots.
        """
        return Inquiry(snapshots)

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        raise NotImplementedError

    def decide_all(
        self, snapshots: Sequence[Any], settings: Settings, *, now: datetime, answer: Any = None
    ) -> list[Decision | Exception]:
        """Return a decision per snapshot; one snapshot's exception touches that one only."""
        return [self.decide_or_error(snapshot, settings, now=now, answer=answer) for snapshot in snapshots]

    def decide_or_error(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any) -> Decision | Exception:
        """Return the decision about one snapshot, or the exception it ended in."""
        try:
            return self.decide(snapshot, settings, now=now, answer=answer)
        except Exception as error:  # noqa: BLE001  # the one broad catch: one object's fault stays with that object
            return error

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        """Return one chunk of the objects an origin makes due and the cursor behind it; None ends the fan-out."""
        raise NotImplementedError


def all_clusters(state: State, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
    """Return one chunk of a fan-out to all clusters and its cursor."""
    return page([one.ref for one in state.list(CLUSTER, after=cursor_after(after), limit=limit)], limit=limit)


def page(refs: Sequence[Ref], *, limit: int) -> tuple[list[Ref], str | None]:
    """Return a chunk of a fan-out and its cursor: "namespace/name" of the last ref while pages are full."""
    last = refs[-1] if refs else None
    return list(refs), f"{last.namespace}/{last.name}" if last is not None and len(refs) >= limit else None


def cursor_after(cursor: str) -> tuple[str, str]:
    """Return the (namespace, name) a cursor stands for; ("", "") for the empty one."""
    namespace, _, name = cursor.partition("/")
    return namespace, name

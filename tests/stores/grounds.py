"""The two stores under one name each, and a way to let time pass in both."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

from controlplane.apimachinery.meta import Object, Ref
from controlplane.engine.controller import Controller, Ownership, cursor_after, page
from controlplane.engine.decision import Decision, Put
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor, Outcome, State, Watch
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.rows import CapacityReservation, Observation

USER = Actor("jane")
PLACER = Actor("placer", controller=True)


class Placer(Controller):
    """Looks at bindings; a cluster makes every binding on it due."""

    name = "placer"
    group = "test"
    keys = (RESOURCE_BINDING,)
    watches = (
        Watch(RESOURCE_BINDING, lambda old, new: [(new or old).ref]),
        Watch(CLUSTER, lambda old, new: [(new or old).ref], fan_out=True),
        Watch("row/Observation", lambda old, new: [Ref(CLUSTER, "", new.key)] if new else [], fan_out=True),
    )
    owns = Ownership({RESOURCE_BINDING: ("create", "spec.clusters", "status")}, rows=(CapacityReservation,))
    batch: ClassVar[int] = 100

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Any]:
        found = state.get(refs)
        return [found.get(ref) for ref in refs]

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        refs = state.refs_by_index(RESOURCE_BINDING, "placed", origin.name, after=cursor_after(after), limit=limit)
        return page(refs, limit=limit)


class Observer(Controller):
    """Writes row-native values of every kind and watches nothing."""

    name = "observer"
    group = "test"
    keys = ()
    watches = ()
    owns = Ownership({}, rows=(Observation,))


def controllers() -> list[Controller]:
    return [Placer(), Observer()]


class Ground(Protocol):
    """A store and the passing of time in it."""

    store: Any

    def pass_time(self, seconds: float) -> None: ...


class MemoryGround:
    """MemoryStore on a clock of its own. `own`: its controllers, instead of the usual ones."""

    def __init__(self, *own: Controller) -> None:
        self.moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.store = MemoryStore(controllers=own or controllers(), clock=lambda: self.moment)

    def pass_time(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


class DjangoGround:
    """DjangoStore; its clock is the database's, so time passes by moving every kept moment into the past.

    `own`: its controllers, instead of the usual ones.
    """

    def __init__(self, *own: Controller) -> None:
        from apps.objects.store import DjangoStore  # here: the pure half runs without Django

        self.store = DjangoStore(controllers=own or controllers())

    def pass_time(self, seconds: float) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            by = f"interval '{seconds} seconds'"
            cursor.execute(f"UPDATE objects_due SET due_at = due_at - {by}, lease_until = lease_until - {by}")
            cursor.execute(f"UPDATE objects_lease SET until = until - {by}")


def create(store: Any, *objects: Object) -> list[Any]:
    """Store objects as a user and return them as stored."""
    outcomes = store.apply([(None, Decision(changes=(Put(obj, None),))) for obj in objects], by=USER)
    assert not any(one.lost for one in outcomes), [one.lost for one in outcomes]
    return [one.objects[0] for one in outcomes]


def write(store: Any, *changes: Any, by: Actor = USER, **fields: Any) -> Outcome:
    """Apply one decision of these changes."""
    outcome: Outcome = store.apply([(None, Decision(changes=changes, **fields))], by=by)[0]
    return outcome


def stored(store: Any, obj: Object | Ref) -> Any:
    """Return what is stored under an object's reference, None where nothing is."""
    ref = obj if isinstance(obj, Ref) else obj.ref
    return store.get([ref]).get(ref)


def due_refs(store: Any, controller: str = "placer") -> list[Ref]:
    """Return what is due for a controller; claims it for no time at all."""
    claims = store.claim(controller, shard=0, shards=1, limit=1000, lease_seconds=0)
    return [claim.ref for claim in claims.claims]

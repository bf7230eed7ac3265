"""A transaction is sent as a whole, and sent again in two steps only if something is not as it assumes."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection
from psycopg import connect

from apps.objects import write_lock
from apps.objects.apply import binary_cursor
from apps.objects.due import WRITE_LOCK
from apps.objects.store import DjangoStore
from apps.objects.transaction import Transaction
from controlplane.engine.decision import CapacityGuard, Decision, Guard, Put, Save, unchanged
from controlplane.engine.state import HeldLease, LeaseLost, Outcome
from controlplane.estimate.request import NOTHING_ASKED, encoded
from controlplane.kinds import CLUSTER
from controlplane.kinds.binding import Binding
from controlplane.kinds.rows import CapacityReservation
from tests.builders.bare import binding, cluster
from tests.stores.grounds import PLACER, USER, controllers, create

pytestmark = pytest.mark.django_db(transaction=True)

RESERVED = CapacityReservation(
    key="a|member1", binding="a", cluster="member1", replicas=1, request=encoded(NOTHING_ASKED)
)
ROOM = CapacityGuard("member1", 0, (("", 0),))


@pytest.fixture
def store() -> DjangoStore:
    return DjangoStore(controllers=controllers())


@pytest.fixture
def limits_transactions() -> None:
    """Skip the test on a server whose transactions have no time limit."""
    connection.ensure_connection()
    if connection.connection.info.server_version < write_lock.LIMITED_SINCE:
        pytest.skip("PostgreSQL is older than 17, so transactions are sent in two steps")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Transaction]:
    """The transactions that are sent in two steps."""
    seen: list[Transaction] = []
    send = Transaction.send

    def noted(self: Transaction, *args: object, **kwargs: object) -> None:
        seen.append(self)
        send(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "send", noted)
    return seen


def scaled(old: Binding, **conditions: object) -> Decision:
    return Decision(changes=(Put(old.with_spec(replicas=old.spec.replicas + 1), old),), **conditions)  # type: ignore[arg-type]


def write(store: DjangoStore, *decisions: Decision, lease: HeldLease | None = None) -> list[str]:
    """Return why each decision was lost."""
    outcomes: list[Outcome] = store.apply([(None, one) for one in decisions], by=USER, lease=lease)
    return [outcome.lost.partition(" ")[0] for outcome in outcomes]


@pytest.mark.usefixtures("limits_transactions")
def test_what_is_as_assumed_is_written_in_one_step(store: DjangoStore, compared: list[Transaction]) -> None:
    member, old = create(store, cluster("member1"), binding("web"))
    conditions = {
        "guards": (Guard(member.ref, member.metadata.generation), unchanged(CLUSTER, [member])),
        "capacity_guards": (ROOM,),
    }
    lease = store.take_lease("fleet", 0, holder="a", seconds=10)

    assert write(store, scaled(old, **conditions), lease=lease) == [""]
    assert store.get([old.ref])[old.ref].spec.replicas == old.spec.replicas + 1
    assert not compared


@pytest.mark.parametrize("wrong", ["object", "guard", "one of two guards", "absent", "kind", "reservation"])
def test_what_has_changed_is_found_and_costs_what_rests_on_it_alone(
    store: DjangoStore, compared: list[Transaction], wrong: str
) -> None:
    member, old, other = create(store, cluster("member1"), binding("web"), binding("beside"))
    generation = member.metadata.generation
    conditions: dict[str, object] = {
        "object": {},
        "guard": {"guards": (Guard(member.ref, generation + 1),)},
        "one of two guards": {"guards": (Guard(member.ref, generation), Guard(member.ref, generation + 1))},
        "absent": {"guards": (Guard(cluster("member2").ref, 1),)},
        "kind": {"guards": (unchanged(CLUSTER, []),)},
        "reservation": {"capacity_guards": (ROOM,)},
    }[wrong]
    if wrong == "object":
        write(store, scaled(old))
    if wrong == "reservation":
        store.apply([(None, Decision(changes=(Save(RESERVED),)))], by=PLACER)
    compared.clear()

    lost = write(store, scaled(old, **conditions), scaled(other))  # type: ignore[arg-type]

    assert lost == ["conflict" if wrong == "object" else "room" if wrong == "reservation" else "guard", ""]
    assert len(compared) == 1


def test_a_lease_that_has_passed_writes_nothing(store: DjangoStore) -> None:
    (old,) = create(store, binding("web"))
    lease = HeldLease("fleet", 0, 1)

    with pytest.raises(LeaseLost):
        write(store, scaled(old), lease=lease)

    assert store.get([old.ref])[old.ref].spec == old.spec


@pytest.mark.usefixtures("limits_transactions")
def test_the_next_call_assumes_again(store: DjangoStore, compared: list[Transaction]) -> None:
    (old,) = create(store, binding("web"))
    write(store, scaled(old))
    assert write(store, scaled(old)) == ["conflict"]
    compared.clear()

    assert write(store, scaled(store.get([old.ref])[old.ref])) == [""]
    assert not compared


def test_a_server_that_cannot_limit_a_transaction_gets_it_in_two_steps(
    store: DjangoStore, compared: list[Transaction], monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = create(store, binding("web"))
    monkeypatch.setattr(write_lock, "LIMITED_SINCE", 10**9)

    assert write(store, scaled(old)) == [""]
    assert len(compared) == 1


@pytest.mark.usefixtures("limits_transactions")
def test_who_is_paused_while_sending_loses_the_write_lock(store: DjangoStore) -> None:
    """PostgreSQL waits for the rest of a pipeline, and does not count that as idle."""
    create(store, binding("web"))
    with pytest.raises(OperationalError, match=r"closed|terminat"):
        take_the_lock_and_pause()
    connection.close()


def take_the_lock_and_pause() -> None:
    """Send the first half of a transaction, and the rest of it when another session has the write lock."""
    with binary_cursor() as cursor, cursor.connection.pipeline() as pipeline:
        cursor.connection.execute("BEGIN")
        cursor.run(write_lock.TAKE, (1, 1, "500ms"))
        with connect(**connection.get_connection_params()) as other:
            other.execute(WRITE_LOCK)
        pipeline.sync()

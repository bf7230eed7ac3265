"""What a waiting eviction says: taint and toleration, what stops all evictions, who gave orders; and how it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Object
from controlplane.apimachinery.meta import condition as condition_of
from controlplane.controllers.eviction_pending import EvictionPending
from controlplane.engine.decision import Delete, Put
from controlplane.eviction import hold_events, operator_orders
from controlplane.eviction.pending import EVICTION_PENDING, with_eviction_pending
from controlplane.eviction.revert import reverted_binding
from controlplane.kind import KINDS, to_wire
from controlplane.kinds import EVICTION_HOLD, MAINTENANCE_WINDOW
from controlplane.kinds.binding import Binding
from controlplane.kinds.eviction import Stopped, eviction_item
from controlplane.kinds.rows import EVICTED, HELD, Eviction, FleetState, Judgement
from controlplane.settings import Settings
from controlplane.wire.table import table
from tests.builders.objects import START, binding, eviction
from tests.builders.placements import duplicated
from tests.builders.steering import hold, window

WEB = binding("web", duplicated(), on={"member1": 2})
API = "failover.lifeboat.io/v1alpha1"


def pending_condition(
    binding: Binding, rows: list[Eviction], before: Condition | None = None, *, stopped: str = ""
) -> Condition | None:
    """Return the condition after a change; None: the binding does not change."""
    old = binding.with_status(conditions=() if before is None else (before,))
    new = with_eviction_pending(old, rows, stopped=stopped, now=START)
    return None if new is old else condition_of(new.status.conditions, EVICTION_PENDING)


def row(effect: str = "NoExecute", wait: float = 300, *, cluster: str = "member1", **fields: Any) -> Eviction:
    judged = (Judgement("power", effect, START, START + timedelta(seconds=wait), wait),)
    return eviction(WEB, cluster, **{"due_at": judged[0].due_at, "judged": judged, **fields})


@pytest.mark.parametrize(
    ("effect", "wait", "reported"),
    [
        ("NoExecute", 0, "taint power:NoExecute, not tolerated"),
        ("NoExecute", 300, "taint power:NoExecute, tolerated for 300 s"),
        ("PreferNoExecute", 100, "taint power:PreferNoExecute, and failover.cluster.tolerationSeconds is 100 s"),
    ],
)
def test_a_queued_item_names_its_taint_and_for_how_long_that_is_tolerated(
    effect: str, wait: float, reported: str
) -> None:
    one = row(effect, wait)

    item = eviction_item(one, position=1, estimated_at=None, estimate="", queue_ends_at=None)
    condition = pending_condition(WEB, [one], None)

    assert (item.status.reason, item.status.message) == ("", reported)
    assert condition is not None
    assert condition.message.endswith(f"Z, {reported}")


def test_a_tier_that_lets_nothing_leave_is_reported_by_the_item_and_by_the_condition() -> None:
    why = "3 of 4 clusters are faulty, more than 55.00%"
    item = eviction_item(
        row(), position=1, estimated_at=None, estimate="stopped", queue_ends_at=None, stopped=Stopped("Stopped", why)
    )
    condition = pending_condition(WEB, [row()], None, stopped=why)

    assert item.status.reason == "Stopped"
    assert item.status.message.startswith(why)
    assert condition is not None
    assert condition.message.endswith(f"no evictions take place at present: {why}")


def test_what_is_held_says_by_what_and_not_that_all_is_stopped() -> None:
    held = row(state=HELD, reason="OnHold", message="EvictionHold release: we are releasing")

    condition = pending_condition(WEB, [held], None, stopped="all is stopped")

    assert condition is not None
    assert condition.message == "cluster member1: OnHold: EvictionHold release: we are releasing"


def test_bindings_that_wait_are_looked_at_when_the_tier_changes_and_for_nothing_else_of_the_fleet() -> None:
    (watch,) = [one for one in EvictionPending.watches if one.kind == "row/FleetState"]

    assert watch.fan_out
    assert [bool(list(watch.to(None, FleetState(key)))) for key in ("tier", "queue", "default")] == [True, False, False]


def test_who_expedited_is_reported_while_the_order_stands() -> None:
    given = operator_orders.with_order(WEB, row(), operator_orders.EXPEDITE, reason="it pays", by="ana", now=START)
    later = row()
    later = replace(later, judged=(replace(later.judged[0], time_added=START + timedelta(hours=1)),))

    now, then = (pending_condition(given, [one], None) for one in (row(), later))

    assert now is not None
    assert then is not None
    assert "expedited by ana: it pays" in now.message
    assert "ana" not in then.message


@pytest.mark.parametrize(
    "verb", [operator_orders.HOLD, operator_orders.SKIP, operator_orders.EXPEDITE, operator_orders.RELEASE]
)
def test_an_order_leaves_an_event_on_binding_and_workload_that_says_who(verb: str) -> None:
    on_binding, on_workload = operator_orders.order_events(WEB, row(), verb, reason="we look", by="ana")

    assert (on_binding.about.ref.kind, on_workload.about.ref.kind) == (WEB.ref.kind, "apps/Deployment")
    assert on_binding.reason == on_workload.reason == f"Eviction{verb}Ordered"
    assert on_binding.message == f"ana ordered {verb} for the eviction from cluster member1: we look"


EVICTED_BEFORE = Condition(EVICTION_PENDING, "False", "Evicted", "cluster member1: taint power:NoExecute; member2 fits")


def test_a_recovery_ends_what_the_condition_says_and_once_is_enough() -> None:
    moved = WEB.with_spec(clusters=())

    ended = pending_condition(moved, [], EVICTED_BEFORE)

    assert ended is not None
    assert (ended.status, ended.reason) == ("False", "Recovered")
    assert "the last state was: evicted, cluster member1" in ended.message
    assert pending_condition(moved, [], ended) is None


def test_a_copy_that_is_back_on_its_cluster_was_not_just_evicted() -> None:
    over = row(state=EVICTED, ended_at=START, due_at=None, message="taint power:NoExecute")

    assert getattr(pending_condition(WEB, [over], EVICTED_BEFORE), "reason", "") == "Recovered"
    assert getattr(pending_condition(WEB.with_spec(clusters=()), [over], None), "reason", "") == "Evicted"


def test_a_revert_says_so_in_the_condition() -> None:
    moved = binding("web", duplicated(), on={"member2": 2})
    moved = moved.with_status(conditions=(EVICTED_BEFORE,))

    back = reverted_binding(moved, WEB, Settings(), by="ana", now=START)

    reported = next(one for one in back.status.conditions if one.type == EVICTION_PENDING)
    assert (reported.status, reported.reason) == ("False", "Reverted")
    assert reported.message == "ana reverted the failover: the binding is placed on member1 again"
    assert pending_condition(back, [], reported) is None


AN_HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (hold(), "Open"),
        (hold(expires_at=START + AN_HOUR), "Open"),
        (hold(expires_at=START - AN_HOUR), "Expired 60m ago"),
        (window("member1", until=3600), "Open"),
        (window("member1", until=-3600), "Over 60m ago"),
        (window("member1", begins=3600, until=7200), "Waiting"),
    ],
)
def test_what_holds_evictions_shows_whether_it_still_does(one: Object, state: str) -> None:
    shown_now = table(KINDS[one.ref.kind].resource, [msgspec.to_builtins(to_wire(one), str_keys=True)], now=START)

    place = [column["name"] for column in shown_now["columnDefinitions"]].index("State")
    assert shown_now["rows"][0]["cells"][place] == state


def test_who_makes_changes_and_removes_a_hold_is_reported_by_events() -> None:
    old = hold(reason="we release")
    new = hold(reason="we release", clusters=("member1",), expires_at=START)
    labelled = old.with_meta(labels={"team": "a"})

    made = hold_events.hold_events(Put(old, None), by="ana")
    changed = hold_events.hold_events(Put(new, old), by="ben")
    removed = hold_events.hold_events(Delete(new), by="eva")

    assert [(one.reason, one.message) for one in (*made, *changed, *removed)] == [
        ("EvictionHoldMade", "ana holds evictions of the whole fleet: we release"),
        (
            "EvictionHoldChanged",
            "ben changed this EvictionHold, which holds evictions of cluster member1 until 2026-01-01T00:00:00Z: "
            "we release",
        ),
        (
            "EvictionHoldRemoved",
            "eva removed this EvictionHold, which held evictions of cluster member1 until 2026-01-01T00:00:00Z: "
            "we release",
        ),
    ]
    assert (
        hold_events.hold_events(Put(labelled, old), by="ana") == hold_events.hold_events(Put(WEB, None), by="ana") == ()
    )
    assert hold_events.hold_events(Put(window("member1", until=0), None), by="ana")[0].reason == "MaintenanceWindowMade"
    assert {one.ref.kind for one in (old, window("member1"))} == {EVICTION_HOLD, MAINTENANCE_WINDOW}

"""EvictionPending: the condition's status, reason and exact wording for every state of a binding's queue rows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.eviction.operator_orders import EXPEDITE, SKIP, with_order
from controlplane.eviction.pending import (
    EVICTION_PENDING,
    RECOVERED,
    evicted_condition,
    pending_evictions,
    waits_for,
    with_eviction_pending,
)
from controlplane.kinds.binding import TAINT_UNTOLERATED, Binding, GracefulEvictionTask
from controlplane.kinds.rows import (
    ABANDONED,
    EVICTED,
    HELD,
    HELD_BY_HAND,
    NO_REFUGE,
    ON_HOLD,
    QUEUED,
    RECOVERING,
    STATE_MISSING,
    Eviction,
    Judgement,
)
from tests.builders.objects import START, binding, eviction
from tests.builders.placements import duplicated

WEB = binding("web", duplicated(), on={"a": 1})
LATER = START + timedelta(seconds=90)
WAITED = Condition(EVICTION_PENDING, "True", QUEUED, "cluster a: due 2026-01-01T00:00:00Z")


def row(cluster: str, **fields: Any) -> Eviction:
    return eviction(WEB, cluster, **fields)


def over(cluster: str, state: str, message: str, *, seconds: int = 0) -> Eviction:
    ended = START + timedelta(seconds=seconds)
    return row(cluster, due_at=None, state=state, message=message, ended_at=ended)


def said(rows: Iterable[Eviction], before: Condition | None = None) -> tuple[str, str, str] | None:
    return changed(WEB.with_status(conditions=() if before is None else (before,)), rows)


def changed(old: Binding, rows: Iterable[Eviction]) -> tuple[str, str, str] | None:
    """Return what the condition reports after a change; None: the binding does not change."""
    new = with_eviction_pending(old, list(rows), now=START)
    found = condition(new.status.conditions, EVICTION_PENDING)
    return None if new is old or found is None else (found.status, found.reason, found.message)


@pytest.mark.parametrize(
    ("rows", "reported"),
    [
        ([row("a")], ("True", "Queued", "cluster a: due 2026-01-01T00:00:00Z")),
        (
            [row("b", due_at=LATER), row("a")],
            ("True", "Queued", "cluster a: due 2026-01-01T00:00:00Z; cluster b: due 2026-01-01T00:01:30Z"),
        ),
        (
            [row("a"), row("b", state=HELD, reason=NO_REFUGE, message="no room")],
            ("True", "Held", "cluster a: due 2026-01-01T00:00:00Z; cluster b: NoRefuge: no room"),
        ),
        (
            [row("a", state=HELD, reason=ON_HOLD, message="EvictionHold freeze")],
            ("True", "Held", "cluster a: OnHold: EvictionHold freeze"),
        ),
        # Looked at again: queued, and still without a refuge or its state. Held until it is known to be otherwise.
        ([row("a", reason=NO_REFUGE, message="no room")], ("True", "Held", "cluster a: NoRefuge: no room")),
        ([row("a", reason=STATE_MISSING, message="no state")], ("True", "Held", "cluster a: StateMissing: no state")),
        # What held it is over, and the row keeps the reason: it is queued.
        (
            [row("a", reason=HELD_BY_HAND, message="held by ana: wait")],
            ("True", "Queued", "cluster a: due 2026-01-01T00:00:00Z"),
        ),
        (
            [row("a", state=RECOVERING, message="the condition has passed")],
            ("True", "Queued", "cluster a: Recovering: the condition has passed"),
        ),
        # A copy that stays has a row without a time: it waits for nothing.
        ([row("a", due_at=None)], None),
        ([row("a", due_at=None), row("b")], ("True", "Queued", "cluster b: due 2026-01-01T00:00:00Z")),
        # Nor does what once held it make the condition Held.
        (
            [row("a", due_at=None, reason=NO_REFUGE, message="no room"), row("b")],
            ("True", "Queued", "cluster b: due 2026-01-01T00:00:00Z"),
        ),
        ([over("c", EVICTED, "taint x; fits")], ("False", "Evicted", "cluster c: taint x; fits")),
        # It is placed on that cluster again.
        ([over("a", EVICTED, "taint x; fits")], None),
        ([over("a", ABANDONED, "skipped")], ("False", "Abandoned", "cluster a: skipped")),
        ([over("a", EVICTED, "first"), row("b")], ("True", "Queued", "cluster b: due 2026-01-01T00:00:00Z")),
        (
            [over("b", EVICTED, "first", seconds=1), over("a", ABANDONED, "last", seconds=2)],
            ("False", "Abandoned", "cluster a: last"),
        ),
        # Of two that ended together the one whose cluster comes last by name is reported.
        ([over("b", EVICTED, "b"), over("a", EVICTED, "a")], ("False", "Evicted", "cluster b: b")),
        ([row("a", due_at=None, state=EVICTED, message="when is not known")], None),
    ],
)
def test_the_condition_says_what_the_rows_mean(rows: list[Eviction], reported: tuple[str, str, str] | None) -> None:
    assert said(rows) == reported


def test_rows_of_copies_that_stay_do_not_end_a_condition_twice() -> None:
    assert said([row("a", due_at=None)], WAITED) == ("False", "Abandoned", "no taint evicts this workload any more")


@pytest.mark.parametrize(
    "before",
    [
        None,
        Condition(EVICTION_PENDING, "False", ABANDONED, "cluster a: x"),
        Condition(EVICTION_PENDING, "False", RECOVERED, "cluster a: x"),
    ],
)
def test_nothing_is_said_where_nothing_waits_and_nothing_waited(before: Condition | None) -> None:
    assert said([], before) is None


def test_an_evicted_workload_whose_rows_are_gone_has_recovered() -> None:
    evicted = Condition(EVICTION_PENDING, "False", EVICTED, "cluster a: no room")

    reported = "no eviction waits any more; the last state was: evicted, cluster a: no room"
    assert said([], evicted) == ("False", "Recovered", reported)


def test_an_order_to_expedite_is_named_while_its_taint_evicts_and_no_other_order_is() -> None:
    taint, other = Judgement("gone", "NoExecute", START), Judgement("full", "NoExecute", START)

    def named(verb: str, judged: Judgement) -> str:
        web = with_order(WEB, row("a", judged=(judged,)), verb, reason="now", by="ana", now=START)
        (pending,) = pending_evictions(web, [row("a", judged=(taint,))])
        return pending.message

    assert named(EXPEDITE, taint) == "due 2026-01-01T00:00:00Z, expedited by ana: now"
    assert named(EXPEDITE, other) == named(SKIP, taint) == "due 2026-01-01T00:00:00Z"


def test_the_end_of_the_rows_is_reported_once_by_what_the_binding_shows() -> None:
    gone = "False", "Abandoned", "no taint evicts this workload any more"
    left = "False", "Recovered", "evicted; the cluster has recovered since"
    assert said([], WAITED) == gone

    def with_task(reason: str) -> tuple[str, str, str]:
        task = GracefulEvictionTask("a", reason=reason, creation_timestamp=START)
        found = changed(WEB.with_spec(graceful_eviction_tasks=(task,)).with_status(conditions=(WAITED,)), [])
        assert found is not None
        return found

    assert with_task(TAINT_UNTOLERATED) == left
    assert with_task("Drain") == gone


def test_what_an_eviction_waits_for_is_kept_as_fields() -> None:
    rows = [
        row("a"),
        row("a.b", state=HELD, reason=ON_HOLD, message="freeze; cluster b: until Monday"),
        row("b", state=HELD, reason=NO_REFUGE, message="two\nlines"),
    ]
    web = with_eviction_pending(WEB, rows, now=START)

    assert [(one.cluster, one.reason) for one in web.status.pending_evictions] == [
        ("a", QUEUED),
        ("a.b", ON_HOLD),
        ("b", NO_REFUGE),
    ]
    assert waits_for(web, "a") == "Queued: due 2026-01-01T00:00:00Z"
    assert waits_for(web, "a.b") == "OnHold: freeze; cluster b: until Monday"
    assert waits_for(web, "b") == "NoRefuge: two\nlines"
    assert waits_for(web, "c") == waits_for(web, "0") == waits_for(WEB, "a") == ""


def test_once_nothing_waits_the_fields_are_empty() -> None:
    web = with_eviction_pending(with_eviction_pending(WEB, [row("a")], now=START), [], now=START)

    assert web.status.pending_evictions == ()
    assert waits_for(web, "a") == ""


def test_a_condition_that_an_earlier_release_stored_without_fields_is_read_whole() -> None:
    assert waits_for(WEB.with_status(conditions=(WAITED,)), "a") == "cluster a: due 2026-01-01T00:00:00Z"


def test_evicted_is_read_from_the_condition() -> None:
    evicted = Condition(EVICTION_PENDING, "False", EVICTED, "cluster a: x")

    assert evicted_condition(WEB) is None
    assert evicted_condition(WEB.with_status(conditions=(WAITED,))) is None
    assert evicted_condition(WEB.with_status(conditions=(replace(evicted, reason=ABANDONED),))) is None
    assert evicted_condition(WEB.with_status(conditions=(evicted,))) == evicted
    other = Condition("Scheduled", "True", EVICTED, "")
    assert evicted_condition(WEB.with_status(conditions=(other,))) is None

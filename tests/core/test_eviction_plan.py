"""The judgement of single rows of the queue: what is dropped, waits, is held and moves, and what the row says of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from controlplane.clusters.taints import OWNERS_ANNOTATION, Owners, Ownership, written
from controlplane.eviction import operator_orders
from controlplane.eviction.eviction_plan import (
    EvictionPlan,
    QueueHeads,
    clusters_left_together,
    plan_evictions,
    recheck,
)
from controlplane.eviction.holds import Holds
from controlplane.eviction.refuge import DryRunResult, Refuge, Reservation
from controlplane.kinds.binding import AggregatedStatusItem, Binding, TargetCluster
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import DIRECTLY, ClusterFailoverBehavior, StatePreservation, StatePreservationRule
from controlplane.kinds.rows import (
    HELD,
    NO_REFUGE,
    ON_HOLD,
    QUEUED,
    RECOVERING,
    STATE_MISSING,
    Eviction,
    Judgement,
)
from tests.builders.objects import START, binding, cluster, eviction
from tests.builders.placements import by_room
from tests.builders.steering import hold
from tests.core.fleet_story import FAILOVER

NOW = START + timedelta(seconds=60)
NO_HOLDS = Holds()
LONG_AGO = START - timedelta(days=1)
GONE = Taint("gone", "NoExecute", time_added=START)
LOST = cluster("a", taints=[GONE])
WEB = binding("web", by_room("a", "b", "c"), on={"a": 1}, replicas=1)
FITS = DryRunResult((TargetCluster("b", 1),))


def with_owned(taints: Sequence[Taint], known: Owners) -> Cluster:
    """Return the lost cluster with taints that belong to policies."""
    one = cluster("a", taints=taints)
    return one.with_meta(annotations={OWNERS_ANNOTATION: written(known)})


def judged(seconds: float | None, *, key: str = "gone", effect: str = "NoExecute") -> Judgement:
    due = None if seconds is None else START + timedelta(seconds=seconds)
    return Judgement(key, effect, START, due, seconds)


def row(on: str = "a", of: Binding = WEB, **fields: Any) -> Eviction:
    return eviction(of, on, **{"generation": 1, "judged": (judged(0.0),), **fields})


class Asked:
    """What is looked at, with dry runs that answer as given and note what they are asked."""

    def __init__(self, *bindings: Binding, clusters: Sequence[Cluster] = (LOST,), holds: Holds = NO_HOLDS) -> None:
        self.bindings = {one.ref: one for one in bindings or (WEB,)}
        self.clusters = {one.metadata.name: one for one in clusters}
        self.holds = holds
        self.answer = FITS
        self.without: list[set[str]] = []
        self.room: dict[str, int] = {}
        self.took: list[str] = []
        self.settings = FAILOVER

    def attempt(self, binding: Binding, leaving: Collection[str]) -> DryRunResult:
        self.without.append(set(leaving))
        return self.answer

    def taken(self, row: Eviction, binding: Binding, place: Refuge) -> Reservation:
        self.took.append(row.cluster)
        return Reservation()

    def plan(self, *heads: Eviction, held: Sequence[Eviction] = (), rows: Sequence[Eviction] = ()) -> EvictionPlan:
        by_binding: dict[str, list[Eviction]] = {}
        for one in rows or (*heads, *held):
            by_binding.setdefault(one.binding, []).append(one)
        queue = QueueHeads(heads, held, self.bindings, by_binding, self.clusters, LONG_AGO, self.holds)
        room = {"a": 10, **self.room}
        return plan_evictions(
            queue,
            self.settings,
            tokens_for=lambda name: room.get(name, 10),
            dry_run=self.attempt,
            reserve=self.taken,
            now=NOW,
        )


def check(one: Eviction, *, of: Binding | None = WEB, on: Cluster | None = LOST, seconds: int = 60) -> Any:
    return recheck(one, of, on, clocks_from=LONG_AGO, now=START + timedelta(seconds=seconds))


def test_a_row_moves_for_the_judgement_that_is_due_first() -> None:
    both = replace(LOST, spec=replace(LOST.spec, taints=(GONE, Taint("other", "NoExecute", time_added=START))))

    found = check(row(judged=(judged(30.0), judged(10.0, key="other"))), on=both)

    assert found == judged(10.0, key="other")


@pytest.mark.parametrize(
    ("of", "on", "judgements"),
    [
        (None, LOST, (judged(0.0),)),
        (WEB, None, (judged(0.0),)),
        (WEB.with_meta(deletion_timestamp=START), LOST, (judged(0.0),)),
        (WEB.with_spec(clusters=(TargetCluster("b", 1),)), LOST, (judged(0.0),)),
        (WEB, cluster("a"), (judged(0.0),)),
        (WEB, LOST, (judged(0.0, effect="PreferNoExecute"),)),
        (WEB, LOST, (judged(None),)),
        (WEB, LOST, ()),
    ],
    ids=["no binding", "no cluster", "deleted", "not there", "no taint", "another effect", "it stays", "not judged"],
)
def test_a_row_is_dropped_where_nothing_moves_the_copy_any_more(
    of: Binding | None, on: Cluster | None, judgements: tuple[Judgement, ...]
) -> None:
    assert check(row(judged=judgements), of=of, on=on) is None


def test_a_taint_that_was_put_on_again_is_another_taint() -> None:
    again = cluster("a", taints=[replace(GONE, time_added=START + timedelta(seconds=1))])

    assert check(row(), on=again) is None


def test_a_row_waits_until_its_judgement_is_due_and_not_longer() -> None:
    waiting = check(row(judged=(judged(60.0),), state=HELD), seconds=59)

    assert isinstance(waiting, Eviction)
    assert (waiting.state, waiting.due_at) == (QUEUED, START + timedelta(seconds=60))
    assert check(row(judged=(judged(60.0),)), seconds=60) == judged(60.0)


def test_a_job_that_has_finished_since_it_was_queued_stays_where_it_is() -> None:
    resource = replace(WEB.spec.resource, api_version="batch/v1", kind="Job")
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    queued = row(judged=(judged(0.0),), state=HELD, reason="NoRefuge", message="no other cluster fits")

    def found(status: dict[str, Any]) -> Any:
        items = (AggregatedStatusItem("a", status, applied=True, out_of_reach_since=START),)
        return check(queued, of=WEB.with_spec(resource=resource).with_status(aggregated_status=items))

    assert found({"active": 1}) == judged(0.0)
    assert found(done) == replace(queued, due_at=None, state=QUEUED, reason="", message="")


def test_restarted_clocks_count_from_then_on() -> None:
    begun = START + timedelta(seconds=50)
    waiting = recheck(row(judged=(judged(30.0),)), WEB, LOST, clocks_from=begun, now=NOW)

    assert isinstance(waiting, Eviction)
    assert waiting.due_at == begun + timedelta(seconds=30)
    assert [one.due_at for one in waiting.judged] == [waiting.due_at]


def test_clocks_that_started_before_the_taint_change_nothing() -> None:
    assert check(row(judged=(judged(30.0),))) == judged(30.0)


def test_judgements_of_taints_that_are_gone_are_forgotten() -> None:
    waiting = check(row(judged=(judged(90.0), judged(0.0, key="other"))))

    assert isinstance(waiting, Eviction)
    assert waiting.judged == (judged(90.0),)


def test_what_was_skipped_does_not_move_the_copy() -> None:
    skipped = operator_orders.with_order(WEB, row(), operator_orders.SKIP, reason="leave it", by="ana", now=START)

    assert check(row(), of=skipped) is None


def test_a_copy_leaves_with_those_that_are_to_leave_at_some_time() -> None:
    rows = [row("b", due_at=NOW), row("c", due_at=None), row("d", state=RECOVERING), row("e", state=HELD)]

    assert clusters_left_together(row("a"), rows) == {"a", "b", "e"}


def test_a_row_that_moves_takes_its_room_and_leaves_with_the_moves_before_it() -> None:
    twice = WEB.with_spec(clusters=(TargetCluster("a", 1), TargetCluster("b", 1)))
    asked = Asked(twice, clusters=(LOST, cluster("b", taints=[GONE])))
    asked.answer = DryRunResult((TargetCluster("c", 2),))

    found = asked.plan(row("a"), row("b"), rows=[row("a"), row("b", state=RECOVERING)])

    assert [move.row.cluster for move in found.moves] == asked.took == ["a", "b"]
    assert asked.without == [{"a"}, {"a", "b"}]
    assert (found.saved, found.dropped, found.held, found.exhausted) == ((), (), (), True)


def test_a_copy_stays_until_the_taints_of_all_clusters_of_its_binding_are_judged() -> None:
    """Otherwise the refuge could add replicas on a cluster that is lost as well, and whose row is not there yet."""
    twice = WEB.with_spec(clusters=(TargetCluster("a", 1), TargetCluster("b", 1)), replicas=2)
    asked = Asked(twice, clusters=(LOST, cluster("b", taints=[GONE])))

    assert asked.plan(row("a")) == EvictionPlan()
    assert [move.row.cluster for move in asked.plan(row("a"), rows=[row("a"), row("b", due_at=None)]).moves] == ["a"]


def test_a_copy_on_one_cluster_waits_for_no_judgement_of_another_taint_there() -> None:
    other = Taint("other", "NoExecute", time_added=START)

    found = Asked(clusters=(cluster("a", taints=[GONE, other]),)).plan(row("a"))

    assert [move.row.cluster for move in found.moves] == ["a"]


def test_an_unwanted_row_is_dropped_and_asks_for_no_dry_run() -> None:
    asked = Asked(clusters=(cluster("a"),))

    found = asked.plan(row())

    assert (found.dropped, found.moves, found.saved, asked.without) == ((row(),), (), (), [])


def test_a_row_without_refuge_is_held_with_the_reason_and_reported_once() -> None:
    asked = Asked()
    asked.answer = DryRunResult(refused="no room anywhere")

    first = asked.plan(row(generation=0))
    (held,) = first.saved
    again = asked.plan(held=[held])
    asked.answer = DryRunResult(refused="still no room")
    other = asked.plan(held=[held])

    assert (held.state, held.reason, held.message) == (HELD, NO_REFUGE, "no room anywhere")
    assert (held.failed_at, held.generation) == (NOW, WEB.metadata.generation)
    assert first.held == (held,)
    assert (again.saved, again.held) == ((), ())
    assert [one.message for one in other.held] == ["still no room"]
    assert asked.took == []


def test_a_row_that_is_held_for_a_new_generation_is_stored_and_not_reported_again() -> None:
    asked = Asked(WEB.with_meta(generation=5))
    asked.answer = DryRunResult(refused="no room")
    held = row(state=HELD, reason=NO_REFUGE, message="no room", generation=4, failed_at=START)

    found = asked.plan(held=[held])

    assert found.saved == (replace(held, generation=5),)
    assert found.held == ()


def test_the_first_time_nothing_fitted_is_kept() -> None:
    asked = Asked()
    asked.answer = DryRunResult(refused="no room")

    (held,) = asked.plan(row(failed_at=START)).saved

    assert held.failed_at == START


def test_what_a_hold_keeps_waiting_did_not_fail_and_is_reported_when_the_reason_changes() -> None:
    freeze = hold("freeze", reason="sale")
    asked = Asked(holds=Holds(holds=(freeze,)))

    found = asked.plan(held=[row(state=HELD, reason=NO_REFUGE, message="EvictionHold freeze: sale")])

    (held,) = found.saved
    assert (held.reason, held.failed_at) == (ON_HOLD, None)
    assert found.held == (held,)
    assert asked.without == []


def test_a_held_row_is_reported_again_when_its_hold_has_ended_and_no_cluster_takes_its_copy() -> None:
    asked = Asked()
    asked.answer = DryRunResult(refused="no room")

    found = asked.plan(held=[row(state=HELD, reason=ON_HOLD, message="EvictionHold freeze: sale")])

    (held,) = found.held
    assert (held.reason, held.message, held.failed_at) == (NO_REFUGE, "no room", NOW)


def test_a_held_row_that_nothing_holds_takes_its_place_in_the_queue_again() -> None:
    """It moves from there at the next look, in its turn; what it was held for stays on it until then."""
    held = row(state=HELD, reason=NO_REFUGE, message="no room")
    asked = Asked()

    found = asked.plan(held=[held])

    assert found.saved == (replace(held, state=QUEUED),)
    assert (found.moves, asked.took) == ((), [])


def test_rows_of_a_cluster_without_tokens_are_not_looked_at_and_others_are() -> None:
    other = binding("other", by_room("b", "c"), on={"b": 1}, replicas=1)
    asked = Asked(WEB, other, clusters=(LOST, cluster("b", taints=[GONE])))
    asked.room = {"a": 0, "b": 1}

    found = asked.plan(row("a"), row("b", of=other))

    assert [move.row.cluster for move in found.moves] == ["b"]
    assert not found.exhausted
    asked.room = {"a": -1}
    assert not asked.plan(row("a")).exhausted
    asked.room = {"a": 1}
    assert asked.plan(row("a")).exhausted


def test_a_move_names_its_cause() -> None:
    (move,) = Asked().plan(row()).moves

    assert (move.cause, move.row, move.refuge.found) == (judged(0.0), row(), True)


def test_a_row_that_is_not_due_is_stored_as_it_waits_and_moves_nothing() -> None:
    """Its judgement is due after now: it keeps its place, and no dry run is asked for."""
    asked = Asked()

    found = asked.plan(row(judged=(judged(61.0),)))

    (waiting,) = found.saved
    assert (waiting.state, waiting.due_at) == (QUEUED, START + timedelta(seconds=61))
    assert (found.moves, found.dropped, asked.without) == ((), (), [])


@pytest.mark.parametrize("seconds", [0.0, 300.0], ids=["due", "not due yet"])
def test_a_taint_that_only_its_removal_window_keeps_moves_nothing(seconds: float) -> None:
    ending = with_owned((GONE,), {("gone", "NoExecute"): Ownership({"policy": "rule"}, ending=True)})

    found = check(row(judged=(judged(seconds),)), on=ending)

    assert isinstance(found, Eviction)
    assert (found.state, found.reason) == (RECOVERING, "Recovering")
    assert found.due_at == START + timedelta(seconds=seconds)


@pytest.mark.parametrize(("ready", "moves"), [("True", 0), ("False", 1), ("Unknown", 1)])
def test_a_part_of_the_replicas_is_enough_where_the_source_is_not_ready(ready: str, moves: int) -> None:
    many = binding("web", by_room("a", "b"), on={"a": 3}, replicas=3)
    asked = Asked(many, clusters=(cluster("a", ready=ready, taints=[GONE]),))
    asked.answer = DryRunResult(refused="room for 2 of 3", part=(TargetCluster("b", 2),))

    found = asked.plan(row(of=many))

    assert len(found.moves) == moves
    assert [one.reason for one in found.saved] == ([] if moves else [NO_REFUGE])


@pytest.mark.parametrize(
    ("on_missing", "status", "held"), [("Hold", None, True), ("Proceed", None, False), ("Hold", {"job": "7"}, False)]
)
def test_a_copy_whose_state_cannot_be_read_is_held_unless_it_may_go_without(
    on_missing: Literal["Hold", "Proceed"], status: dict[str, Any] | None, held: bool
) -> None:
    rule = StatePreservation((StatePreservationRule("example.io/job", "{ .job }"),))
    mine = binding(
        "web", by_room("a", "b"), on={"a": 1}, failover=ClusterFailoverBehavior(DIRECTLY, state_preservation=rule)
    )
    mine = mine.with_status(aggregated_status=(AggregatedStatusItem("a", status=status),))
    asked = Asked(mine)
    asked.settings = replace(
        FAILOVER,
        state_preservation_on_missing=on_missing,
        feature_gates={**FAILOVER.feature_gates, "StatefulFailoverInjection": True},
    )

    found = asked.plan(row(of=mine))

    assert [(one.state, one.reason) for one in found.saved] == ([(HELD, STATE_MISSING)] if held else [])
    assert [one.failed_at for one in found.saved] == ([None] if held else [])
    assert [move.state.labels for move in found.moves] == ([] if held else [{"example.io/job": "7"} if status else {}])

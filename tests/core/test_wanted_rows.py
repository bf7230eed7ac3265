"""The rows of the eviction queue that a binding has to have: what is kept of the stored rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.clusters.taints import Ownership, with_owned
from controlplane.engine.decision import Drop, Save
from controlplane.eviction.eligibility import has_unjudged_taint
from controlplane.eviction.holds import Holds
from controlplane.eviction.operator_orders import EXPEDITE, EXPEDITED, HOLD, SKIP, with_order
from controlplane.eviction.queue import NO_HOLDS, ended_row, is_recovering, row_changes, wanted_rows
from controlplane.kinds.binding import AggregatedStatusItem, Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import Toleration
from controlplane.kinds.rows import (
    ABANDONED,
    EVICTED,
    HELD,
    HELD_BY_HAND,
    MAINTENANCE,
    NO_REFUGE,
    ON_HOLD,
    QUEUED,
    RECOVERING,
    SKIPPED,
    STATE_MISSING,
    UNSTEADY,
    Eviction,
    Judgement,
)
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.core.test_eviction_steering import hold

WEB = binding("web", duplicated("member1"), on={"member1": 2})
TAINT = no_execute()
CLUSTERS = {"member1": cluster("member1", taints=[TAINT])}
LATER = START + timedelta(seconds=60)


def rows(*stored: Eviction, now: object = START) -> Eviction:
    (row,) = wanted_rows(WEB, CLUSTERS, stored, clocks_from=START, judge_again=False, now=now)  # type: ignore[arg-type]
    return row


def test_a_row_keeps_the_time_at_which_it_was_queued() -> None:
    first = rows()

    assert first.queued_at == START
    assert rows(first, now=LATER) == first
    assert rows(replace(first, queued_at=None), now=LATER).queued_at == LATER


def test_a_row_without_a_refuge_stays_held_until_its_due_time_or_its_binding_changes() -> None:
    first = rows()
    held = replace(first, state=HELD, reason=NO_REFUGE, message="no other cluster fits")

    assert rows(held, now=LATER) == held
    assert rows(replace(held, generation=held.generation - 1), now=LATER).state == QUEUED
    assert rows(replace(held, due_at=LATER), now=LATER).state == QUEUED


def wanted(binding_: Binding = WEB, *stored: Eviction, taints: Sequence[Taint] = (TAINT,), **more: Any) -> Any:
    """Return the rows of a binding while member1 and member2 have these taints."""
    lost = {name: cluster(name, taints=taints) for name in ("member1", "member2")}
    options = {"clocks_from": START, "judge_again": False, "now": LATER, **more}
    return wanted_rows(binding_, {**lost, **options.pop("clusters", {})}, stored, **options)


def job(status: dict[str, Any], *, kind: tuple[str, str] = ("batch/v1", "Job")) -> Binding:
    """A job on member1 and member2; its copy on member1 has this status."""
    placed = binding("once", duplicated(), on={"member1": 1, "member2": 1})
    resource = replace(placed.spec.resource, api_version=kind[0], kind=kind[1])
    items = (AggregatedStatusItem("member1", status, applied=True), AggregatedStatusItem("member2", {"active": 1}))
    return placed.with_spec(resource=resource).with_status(aggregated_status=items)


ENDED_JOB = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "kind", "stays"),
    [
        (ENDED_JOB, ("batch/v1", "Job"), True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, ("batch/v1", "Job"), True),
        ({"active": 1}, ("batch/v1", "Job"), False),
        ({"phase": "Succeeded"}, ("argoproj.io/v1alpha1", "Workflow"), True),
        ({"phase": "Failed"}, ("v1", "Pod"), False),  # nothing else replaces it
        ({"phase": "Succeeded"}, ("apps/v1", "Deployment"), False),
    ],
)
def test_a_copy_that_has_finished_stays_because_another_one_would_run_a_second_time(
    status: dict[str, Any], kind: tuple[str, str], *, stays: bool
) -> None:
    once = job(status, kind=kind)

    first, second = wanted(once)

    assert (first.due_at is None, second.due_at is None) == (stays, False)
    assert first.judged == second.judged, "the taint is judged: nothing waits for that"
    assert not has_unjudged_taint(once.spec, CLUSTERS, [first, second])


@pytest.mark.parametrize("reason", [NO_REFUGE, ON_HOLD])
def test_a_copy_that_finishes_while_its_eviction_is_held_stays(reason: str) -> None:
    going = job({"active": 1})
    held = replace(wanted(going)[0], state=HELD, reason=reason, message="no other cluster fits")

    assert wanted(job(ENDED_JOB), held)[0] == replace(wanted(job(ENDED_JOB))[0], queued_at=held.queued_at)


def test_each_target_on_a_cluster_with_an_evicting_taint_has_a_row() -> None:
    everywhere = binding("web", duplicated(), on={"member1": 2, "elsewhere": 2, "member2": 2, "member3": 2})

    found = wanted(everywhere, clusters={"member3": cluster("member3")})

    assert [row.cluster for row in found] == ["member1", "member2"]
    assert {row.resource_kind for row in found} == {"apps/v1/Deployment"}


@pytest.mark.parametrize(
    ("binding_", "clocks_from"), [(WEB, None), (WEB.with_meta(deletion_timestamp=START), START)], ids=["off", "deleted"]
)
def test_nothing_is_evicted_while_failover_is_off_or_of_a_deleted_binding(
    binding_: Binding, clocks_from: datetime | None
) -> None:
    assert wanted(binding_, clocks_from=clocks_from) == ()


def test_a_copy_that_tolerates_its_taint_has_a_row_without_a_due_time() -> None:
    (row,) = wanted(binding("web", duplicated(tolerations=[Toleration("gone", "Exists")]), on={"member1": 2}))

    assert (row.due_at, row.state, len(row.judged)) == (None, QUEUED, 1)


QUEUED_ROW = rows()
ENDED_ROW = replace(QUEUED_ROW, state=EVICTED, reason="", due_at=None, ended_at=START)
STAYS = Judgement("added", "NoExecute", START)
HOLDING = Holds(holds=(hold(),))


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        (QUEUED_ROW, True),
        (replace(QUEUED_ROW, failed_at=START), True),
        (ENDED_ROW, False),
        (replace(ENDED_ROW, state=ABANDONED, reason="TargetGone"), False),
    ],
    ids=["queued", "failed", "evicted", "abandoned"],
)
def test_a_row_of_an_eviction_that_has_ended_is_not_continued(old: Eviction, kept: bool) -> None:
    (row,) = wanted(WEB, old)

    assert row == (old if kept else replace(QUEUED_ROW, queued_at=LATER))


@pytest.mark.parametrize(
    ("old", "holds", "state"),
    [
        ({"reason": NO_REFUGE}, NO_HOLDS, HELD),
        ({"reason": NO_REFUGE, "generation": 0}, NO_HOLDS, QUEUED),
        ({"reason": NO_REFUGE, "generation": 2}, NO_HOLDS, QUEUED),
        ({"reason": NO_REFUGE, "due_at": LATER}, NO_HOLDS, QUEUED),
        ({"reason": NO_REFUGE, "due_at": START - timedelta(seconds=1)}, NO_HOLDS, QUEUED),
        ({"reason": MAINTENANCE, "generation": 0}, NO_HOLDS, HELD),
        ({"reason": ON_HOLD, "generation": 0}, HOLDING, HELD),
        ({"reason": ON_HOLD}, NO_HOLDS, QUEUED),
        ({"reason": UNSTEADY}, NO_HOLDS, HELD),
        ({"reason": UNSTEADY, "judged": ()}, NO_HOLDS, QUEUED),
        ({"reason": UNSTEADY, "judged": (*QUEUED_ROW.judged, STAYS)}, NO_HOLDS, QUEUED),
        ({"reason": NO_REFUGE, "judged": ()}, NO_HOLDS, HELD),
        ({"reason": HELD_BY_HAND}, NO_HOLDS, QUEUED),
        ({"reason": STATE_MISSING}, NO_HOLDS, QUEUED),
        ({"reason": NO_REFUGE, "state": QUEUED}, NO_HOLDS, QUEUED),
        ({"reason": UNSTEADY, "state": RECOVERING}, NO_HOLDS, QUEUED),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_what_held_an_eviction_holds_it_until_it_has_to_be_checked_again(
    old: dict[str, Any], holds: Holds, state: str
) -> None:
    held = replace(QUEUED_ROW, **{"state": HELD, "message": "the message", **old})

    (row,) = wanted(WEB, held, holds=holds)

    message = "the message" if state == HELD or old["reason"] == STATE_MISSING else ""
    assert (row.state, row.message) == (state, message if held.state == HELD else "")
    assert row.reason == (held.reason if message and held.state == HELD else "")
    assert (row.generation, row.due_at, row.judged) == (1, START, QUEUED_ROW.judged)


@pytest.mark.parametrize("generation", [0, 2])
def test_missing_state_is_forgotten_when_the_binding_changes(generation: int) -> None:
    (row,) = wanted(WEB, replace(QUEUED_ROW, state=HELD, reason=STATE_MISSING, generation=generation))

    assert (row.state, row.reason) == (QUEUED, "")


def ordered(*verbs: str, taints: Sequence[Taint] = (TAINT,)) -> Binding:
    """Return the binding with orders about leaving member1, given for these taints."""
    found = WEB
    given = replace(QUEUED_ROW, judged=tuple(Judgement(one.key, one.effect, START, START) for one in taints))
    for verb in verbs:
        found = with_order(found, given, verb, reason="wait", by="ann", now=START)
    return found


ADDED = no_execute("added")


@pytest.mark.parametrize(
    ("binding_", "taints", "expected"),
    [
        (ordered(HOLD), (TAINT,), (HELD, HELD_BY_HAND, "held by ann: wait", 0)),
        (ordered(EXPEDITE), (TAINT,), (QUEUED, "", "", EXPEDITED)),
        (ordered(SKIP), (TAINT,), (ABANDONED, SKIPPED, "skipped by ann: wait", 0)),
        (ordered(SKIP), (TAINT, ADDED), (QUEUED, "", "", 0)),
        (ordered(HOLD, SKIP), (TAINT,), (ABANDONED, SKIPPED, "skipped by ann: wait", 0)),
        (ordered(HOLD), (ADDED,), (QUEUED, "", "", 0)),
    ],
    ids=["hold", "expedite", "skip", "skip and a new taint", "hold and skip", "hold for another taint"],
)
def test_orders_of_operators_show_in_the_row(
    binding_: Binding, taints: Sequence[Taint], expected: tuple[str, str, str, int]
) -> None:
    (row,) = wanted(binding_, taints=taints)

    assert (row.state, row.reason, row.message, row.priority) == expected
    assert len(row.judged) == len(taints)


@pytest.mark.parametrize(("reason", "by_hand"), [(HELD_BY_HAND, True), (NO_REFUGE, False), (UNSTEADY, False)], ids=str)
def test_only_what_is_held_by_hand_stays_so_when_another_taint_replaces_the_first(reason: str, by_hand: bool) -> None:
    (held,) = wanted(ordered(HOLD))

    (row,) = wanted(ordered(HOLD), replace(held, reason=reason), taints=(ADDED,))

    assert (row.reason == HELD_BY_HAND) == by_hand


def test_a_copy_that_stays_is_not_held() -> None:
    tolerant = binding("web", duplicated(tolerations=[Toleration("gone", "Exists")]), on={"member1": 2})

    for verb in (HOLD, SKIP):
        orders = ordered(verb).metadata.annotations
        (row,) = wanted(tolerant.with_meta(annotations=orders))
        assert (row.state, row.reason) == ((QUEUED, "") if verb == HOLD else (ABANDONED, SKIPPED))


def test_a_skip_ends_an_eviction_although_another_taint_is_tolerated() -> None:
    tolerant = binding("web", duplicated(tolerations=[Toleration("added", "Exists")]), on={"member1": 2})
    skipped = tolerant.with_meta(annotations=ordered(SKIP).metadata.annotations)

    (row,) = wanted(skipped, taints=(TAINT, ADDED))

    assert (row.reason, [one.key for one in row.judged]) == (SKIPPED, ["gone", "added"])


def test_a_skipped_eviction_keeps_the_time_at_which_it_ended() -> None:
    (skipped,) = wanted(ordered(SKIP))
    assert (skipped.ended_at, skipped.due_at) == (LATER, None)

    (again,) = wanted(ordered(SKIP), skipped, now=LATER + timedelta(seconds=60))
    assert again == skipped

    (stamped,) = wanted(ordered(SKIP), QUEUED_ROW)
    assert stamped.ended_at == LATER


LASTING = Ownership({"ClusterTaintPolicy/a": "rule"})
ENDING = replace(LASTING, ending=True)


@pytest.mark.parametrize(
    ("owners", "judged", "recovering"),
    [
        ({"gone": ENDING}, QUEUED_ROW.judged, True),
        ({"gone": ENDING}, (*QUEUED_ROW.judged, STAYS), True),
        ({"gone": ENDING, "added": ENDING}, QUEUED_ROW.judged, True),
        ({"gone": LASTING}, QUEUED_ROW.judged, False),
        ({"added": ENDING}, QUEUED_ROW.judged, False),
        ({"added": ENDING}, (STAYS,), False),
    ],
    ids=["ends", "another stays", "another ends", "lasts", "only another ends", "nothing evicts"],
)
def test_a_cluster_recovers_when_all_taints_that_evict_only_wait_for_their_removal(
    owners: dict[str, Ownership], judged: tuple[Judgement, ...], recovering: bool
) -> None:
    taints = tuple(no_execute(key) for key in owners)
    lost = with_owned(cluster("member1"), taints, {(key, "NoExecute"): owner for key, owner in owners.items()})

    assert is_recovering(lost, judged) == recovering


def test_the_row_of_a_recovering_cluster_says_so() -> None:
    lost = with_owned(cluster("member1"), (TAINT,), {("gone", "NoExecute"): ENDING})

    (row,) = wanted(clusters={"member1": lost})

    assert (row.state, row.reason, row.message.partition(";")[0]) == (
        RECOVERING,
        "Recovering",
        "the conditions that caused the taints have ended",
    )


GONE = ended_row(QUEUED_ROW, "TargetGone", "the binding is no longer placed on this cluster", now=LATER)
STAYING = replace(QUEUED_ROW, due_at=None)


@pytest.mark.parametrize(
    ("stored", "wants", "lost", "changes"),
    [
        ((), (QUEUED_ROW,), True, (Save(QUEUED_ROW),)),
        ((QUEUED_ROW,), (QUEUED_ROW,), True, ()),
        ((STAYING,), (QUEUED_ROW,), True, (Save(QUEUED_ROW),)),
        ((QUEUED_ROW,), (), True, (Save(GONE),)),
        ((QUEUED_ROW,), (), False, (Drop(QUEUED_ROW),)),
        ((STAYING,), (), True, (Drop(STAYING),)),
        ((ENDED_ROW,), (), True, ()),
        ((ENDED_ROW,), (), False, (Drop(ENDED_ROW),)),
        ((ENDED_ROW, replace(STAYING, key="a")), (), True, (Drop(replace(STAYING, key="a")),)),
        ((QUEUED_ROW, replace(QUEUED_ROW, key="a")), (QUEUED_ROW,), True, (Save(replace(GONE, key="a")),)),
    ],
)
def test_stored_rows_become_the_wanted_rows(
    stored: Sequence[Eviction], wants: Sequence[Eviction], lost: bool, changes: tuple[Save | Drop, ...]
) -> None:
    clusters = {"member1": cluster("member1")} if lost else {}

    assert row_changes(stored, wants, clusters, now=LATER) == changes

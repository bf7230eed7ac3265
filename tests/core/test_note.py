"""What a note stores of a decision: only some capacities of a large fleet, and what refuses each binding."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from controlplane.kinds.binding import ResourceBindingStatus
from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling.batch import Batch, Item
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.scheduling.note import CAPACITIES_KEPT, TARGETS_KEPT, Term, detail_of, summary_of
from controlplane.scheduling.placement_explanation import REFUSED, NotedDecision, accounts
from controlplane.scheduling.question import Neighbours
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, cluster
from tests.builders.placements import DYNAMIC, placement, weights
from tests.builders.scheduling import ask, spec

ONE = [SpreadConstraint("cluster", "", 1, 1)]


def name(place: int) -> str:
    return f"m{place:03d}"


def noted(rooms: Iterable[int], *, on: dict[str, int]) -> Term:
    """Return what is noted of clusters with room for so many replicas."""
    wanted = spec(placement(how=DYNAMIC, spread=ONE), on=on)
    (term,) = detail_of(ask([cluster(name(place), room=room) for place, room in enumerate(rooms)], wanted)).terms
    return term


@pytest.mark.parametrize("size", [CAPACITIES_KEPT - 1, CAPACITIES_KEPT])
def test_a_note_stores_the_capacity_of_all_clusters_up_to_the_limit(size: int) -> None:
    term = noted(range(size), on={})

    assert term.seen == term.room == tuple(range(size))


def test_beyond_the_limit_the_chosen_cluster_is_stored_and_then_those_with_most_capacity() -> None:
    size = CAPACITIES_KEPT + 40

    term = noted(range(size), on={name(1): 1})

    assert term.seen[0] == 1, "the chosen cluster, although others have more capacity"
    assert len(term.seen) == CAPACITIES_KEPT
    assert set(term.seen[1:]) < set(range(40, size))
    assert term.seen == tuple(sorted(term.seen)) == term.room


def test_beyond_the_limit_those_with_most_capacity_are_stored_wherever_they_are_in_the_fleet() -> None:
    size = CAPACITIES_KEPT + 400
    rooms = [place * 37 % size for place in range(size)]  # each number below `size` once, in no order

    term = noted(rooms, on={})

    assert term.seen == tuple(place for place in range(size) if rooms[place] >= 400)


@pytest.mark.parametrize(("size", "kept"), [(CAPACITIES_KEPT, True), (CAPACITIES_KEPT + 1, False)])
def test_static_weights_are_stored_up_to_the_limit(size: int, kept: bool) -> None:
    names = [name(place) for place in range(size)]
    wanted = spec(placement(how=weights(**dict.fromkeys(names, 2))), replicas=size)

    (term,) = detail_of(ask([cluster(one) for one in names], wanted)).terms

    assert term.weights == ((2,) * size if kept else ())


@pytest.mark.parametrize(
    ("a", "b", "shares"), [(2, 1, (2, 1)), (1, 2, (1, 2)), (2, 2, (2,))], ids=["more first", "more last", "equal"]
)
def test_equal_shares_are_stored_as_a_single_number(a: int, b: int, shares: tuple[int, ...]) -> None:
    wanted = spec(placement(how=weights(a=a, b=b)), replicas=a + b)

    (term,) = detail_of(ask([cluster("a"), cluster("b")], wanted)).terms

    assert (term.shares, term.weights) == (shares, (a, b))


@pytest.mark.parametrize(("size", "more"), [(TARGETS_KEPT - 1, 0), (TARGETS_KEPT, 0), (TARGETS_KEPT + 2, 2)])
def test_a_summary_lists_the_first_clusters_and_counts_the_others(size: int, more: int) -> None:
    names = [name(place) for place in range(size)]
    verdict = ask(
        [cluster(one) for one in names], spec(placement(how=weights(**dict.fromkeys(names, 1))), replicas=size)
    )

    summary = summary_of(verdict, trigger="New", now=START)

    assert [target.name for target in summary.clusters] == names[:TARGETS_KEPT]
    assert summary.more_clusters == more


@pytest.mark.parametrize(
    ("replicas", "on", "division", "by"),
    [
        (3, "a", "Static", (1,)),
        (3, "b", "Static", ()),  # no cluster is feasible
        (0, "a", "", ()),
    ],
)
def test_a_note_says_how_replicas_were_divided_if_there_are_replicas(
    replicas: int, on: str, division: str, by: tuple[int, ...]
) -> None:
    wanted = spec(placement(on, how=weights(a=1)), replicas=replicas)
    wanted = wanted if replicas else replace(wanted, replica_requirements=None)

    detail = detail_of(ask([cluster("a")], wanted))

    assert (detail.division, detail.terms[-1].weights) == (division, by)


def test_bindings_of_one_placement_have_notes_of_what_refuses_each_of_them() -> None:
    settings = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
    fleet = Fleet.of([cluster("a"), cluster("b")], settings=settings)
    batch, found = Batch(fleet, Ledger(fleet), settings), []
    for taken in "ab":
        apart = Neighbours(apart=frozenset(taken))
        _, verdict = batch.place(Item(spec(placement(how=DYNAMIC)), ResourceBindingStatus(), apart))
        part = NotedDecision(summary_of(verdict, trigger="", now=START), detail_of(verdict), fleet.names)
        found.append([account.name for account in accounts(part, {}) if account.verdict == REFUSED])

    assert found == [["a"], ["b"]]

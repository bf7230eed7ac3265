"""What a note stores of the free capacity of a large fleet."""

from __future__ import annotations

import pytest

from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling.note import CAPACITIES_KEPT, TARGETS_KEPT, Term, detail_of, summary_of
from tests.builders.objects import START, cluster
from tests.builders.placements import DYNAMIC, placement, weights
from tests.builders.scheduling import ask, spec

ONE = [SpreadConstraint("cluster", "", 1, 1)]


def name(place: int) -> str:
    return f"m{place:03d}"


def noted(size: int, *, on: dict[str, int]) -> Term:
    """Return what is noted where the cluster at each place has room for so many replicas."""
    wanted = spec(placement(how=DYNAMIC, spread=ONE), on=on)
    (term,) = detail_of(ask([cluster(name(place), room=place) for place in range(size)], wanted)).terms
    return term


@pytest.mark.parametrize("size", [CAPACITIES_KEPT - 1, CAPACITIES_KEPT])
def test_a_note_stores_the_capacity_of_all_clusters_up_to_the_limit(size: int) -> None:
    term = noted(size, on={})

    assert term.seen == term.room == tuple(range(size))


def test_beyond_the_limit_the_chosen_cluster_is_stored_and_then_those_with_most_capacity() -> None:
    size = CAPACITIES_KEPT + 40

    term = noted(size, on={name(1): 1})

    assert term.seen[0] == 1, "the chosen cluster, although others have more capacity"
    assert len(term.seen) == CAPACITIES_KEPT
    assert set(term.seen[1:]) < set(range(40, size))
    assert term.seen == tuple(sorted(term.seen)) == term.room


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

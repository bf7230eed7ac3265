"""SimulatedNodes is first fit: each replica goes to the first node that has room for it [resource-models]."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from controlplane.estimate.simulated_nodes import MOST_SETS, Run, SimulatedNodes

amounts = st.integers(0, 6)
runs = st.lists(st.tuples(st.integers(0, 4), st.tuples(amounts, amounts)), max_size=4)
demands = st.lists(st.tuples(st.integers(0, 5), st.tuples(st.integers(1, 3), amounts)), min_size=1, max_size=12)


def first_fit(nodes: list[list[int]], replicas: int, demand: Sequence[int]) -> bool:
    """Place replicas one by one, as the rule says it."""
    for _ in range(replicas):
        node = next((one for one in nodes if all(map(int.__ge__, one, demand))), None)
        if node is None:
            return False
        node[:] = [have - need for have, need in zip(node, demand, strict=True)]
    return True


@given(runs=runs, demands=demands)
def test_replicas_go_where_first_fit_places_them(
    runs: list[tuple[int, tuple[int, int]]], demands: list[tuple[int, tuple[int, int]]]
) -> None:
    nodes = SimulatedNodes(Run(count, free) for count, free in runs)
    each = [list(free) for count, free in runs for _ in range(count)]

    placed = [nodes.place(replicas, demand) for replicas, demand in demands]

    assert placed == [first_fit(each, replicas, demand) for replicas, demand in demands]
    assert [list(run.free) for run in nodes._runs for _ in range(run.nodes)] == each


def test_a_cluster_of_very_many_nodes_takes_no_more_room_than_one_of_few() -> None:
    """A member may report any number. One bug: each node was an item of a list, which took all memory."""
    nodes = SimulatedNodes([Run(2**62, (110, 4000))])

    assert all(nodes.place(3, (1, 1500)) for _ in range(1000))

    assert nodes._runs == [Run(1500, (108, 1000)), Run(2**62 - 1500, (110, 4000))]


sets = st.lists(st.tuples(st.integers(1, 3), st.tuples(st.integers(1, 2), st.integers(0, 3))), min_size=1, max_size=3)


@given(runs=runs, parts=sets, most=st.integers(0, 20))
def test_as_many_sets_fit_as_first_fit_places(
    runs: list[tuple[int, tuple[int, int]]], parts: list[tuple[int, tuple[int, int]]], most: int
) -> None:
    nodes = SimulatedNodes(Run(count, free) for count, free in runs)
    each, placed = [list(free) for count, free in runs for _ in range(count)], 0
    while placed < most and all(first_fit(each, replicas, demand) for replicas, demand in parts):
        placed += 1

    assert nodes.place_sets(parts, most) == placed


def test_the_sets_on_a_cluster_of_very_many_nodes_are_counted_in_short_time() -> None:
    """One bug: each set was placed, for hours, and looked at all nodes that were full before."""
    nodes = SimulatedNodes([Run(2**62, (110, 4000))])

    assert nodes.place_sets([(1, (1, 1000)), (3, (1, 2000))], 2**62) == MOST_SETS
    assert len(nodes._runs) < 5

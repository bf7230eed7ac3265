from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from controlplane.apimachinery.names import fnv1a32
from controlplane.scheduling.webster import _head_start, descending, dispense
from controlplane.scheduling.webster_arrays import divide

ODD, EVEN = "b", "a" if fnv1a32("a") % 2 == 0 else "c"


@pytest.mark.parametrize(
    ("replicas", "weights", "expected"),
    [
        (9, (1, 2), (3, 6)),
        (9, (1, 3), (2, 7)),
        (3, (1, 2), (1, 2)),
        (2, (2, 1), (1, 1)),
        (5, (170, 110, 60), (2, 2, 1)),
        (6, (170, 110, 60), (3, 2, 1)),
        (12, (6, 12, 18), (2, 4, 6)),
        (10, (8, 6), (6, 4)),
    ],
)
def test_the_worked_examples(replicas: int, weights: tuple[int, ...], expected: tuple[int, ...]) -> None:
    members = {f"member{number}": weight for number, weight in enumerate(weights, start=1)}

    assert tuple(dispense(replicas, members).values()) == expected


def test_the_last_replica_of_a_tie_goes_by_the_uid() -> None:
    assert (fnv1a32(ODD) % 2, fnv1a32(EVEN) % 2) == (1, 0)
    assert dispense(5, {"a": 1, "b": 1}, uid=EVEN) == {"a": 3, "b": 2}
    assert dispense(5, {"a": 1, "b": 1}, uid=ODD) == {"a": 2, "b": 3}
    assert dispense(5, {"a": 1, "b": 1}) == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("replicas", "weights", "held", "found"),
    [
        (2, (1, 1), (2, 0), (2, 2)),
        (19, (1, 7, 50), (0, 3, 8), (1, 4, 25)),  # the second holds nearly its share, and gets the rest of it
        (25, (50, 1, 50, 3), (1, 0, 0, 3), (13, 0, 13, 3)),  # the last holds more than its share, and keeps it
    ],
)
def test_what_is_held_already_counts_as_seats(
    replicas: int, weights: tuple[int, ...], held: tuple[int, ...], found: tuple[int, ...]
) -> None:
    given = dispense(replicas, dict(zip("abcd", weights, strict=False)), initial=dict(zip("abcd", held, strict=False)))

    assert tuple(given.values()) == found


@pytest.mark.parametrize(
    ("replicas", "weights", "held", "found"),
    [
        (3, {"a": 0, "b": 0}, {"a": 1}, {"a": 1}),
        (3, {"a": 0}, {}, {"a": 0}),
        (0, {"a": 1, "b": 1}, {"a": 1}, {"a": 1}),
        (0, {"a": 1, "b": 1}, {}, {"a": 0, "b": 0}),
        (-1, {"a": 1, "b": 1}, {"a": 1}, {"a": 1}),
    ],
)
def test_without_replicas_or_weights_nothing_is_handed_out(
    replicas: int, weights: dict[str, int], held: dict[str, int], found: dict[str, int]
) -> None:
    assert dispense(replicas, weights, initial=held) == found


@pytest.mark.parametrize(
    ("weights", "held"),
    [
        ({"a": 1, "b": 1}, {}),
        ({"a": 3, "b": 2, "c": 2}, {}),
        ({"a": 1, "b": 1000, "c": 1}, {}),
        ({"a": 1, "b": 1, "c": 1}, {"a": 100}),
        ({"a": 1, "b": 1, "c": 1}, {"a": 10_000}),  # it holds more than its share and competes no more
        ({"a": 5, "b": 1, "c": 1}, {"b": 10_000, "c": 3}),
    ],
)
def test_the_head_start_leaves_at_most_two_replicas_for_each_target(
    weights: dict[str, int], held: dict[str, int]
) -> None:
    """So the cost of a division does not grow with the replicas."""
    seats = {**dict.fromkeys(weights, 0), **held}

    given = _head_start(3000, weights, seats)

    assert sum(seats.values()) == sum(held.values()) + given
    assert 3000 - 2 * len(weights) <= given <= 3000


def test_a_target_without_weight_keeps_what_it_holds_and_gets_nothing() -> None:
    assert dispense(900, {"a": 1, "b": 0, "c": 2}, initial={"b": 7}) == {"a": 300, "b": 7, "c": 600}


def plainly(replicas: int, weights: tuple[int, ...], *, larger_name_first: bool) -> list[int]:
    """Return what the definition gives to clusters that are named in this order."""
    names = [f"{place:03d}" for place in range(len(weights))]
    found = dispense(replicas, dict(zip(names, weights, strict=True)), uid=ODD if larger_name_first else "")
    return [found[name] for name in names]


@pytest.mark.parametrize("larger_name_first", [False, True])
@pytest.mark.parametrize(
    ("replicas", "weights"),
    [
        (3, (1,) * 40),  # fewer replicas than clusters: only the best first seats are compared
        (3, (1, 2, 1, 3) * 10),
        (6, (1, 100, 1, 1)),  # a cluster that wins more seats than were compared at first
        (40, (1,) * 20 + (1000,)),
        (100, (1,) * 20 + (1000,)),
        (2**31 - 1, (3, 1, 7)),
        (2**31 - 1, (2**63 - 1, 2**62, 1)),
    ],
)
def test_the_division_of_arrays_is_that_of_the_definition(
    replicas: int, weights: tuple[int, ...], larger_name_first: bool
) -> None:
    found = divide(replicas, np.array(weights), larger_name_first=larger_name_first)

    assert found.tolist() == plainly(replicas, weights, larger_name_first=larger_name_first)


@pytest.mark.parametrize("larger_name_first", [False, True])
@pytest.mark.parametrize("replicas", [-1, 0, 1, 2, 5, 8, 9, 23])
def test_every_small_division_of_arrays_is_that_of_the_definition(replicas: int, larger_name_first: bool) -> None:
    for weights in product((0, 1, 2, 3), repeat=4):
        found = divide(replicas, np.array(weights), larger_name_first=larger_name_first)
        assert found.tolist() == plainly(replicas, weights, larger_name_first=larger_name_first), weights


def test_ties_go_to_the_larger_name_for_an_odd_hash_of_a_uid() -> None:
    assert (descending(ODD), descending(EVEN), descending("")) == (True, False, False)

from __future__ import annotations

import pytest

from controlplane.apimachinery.names import fnv1a32
from controlplane.scheduling.webster import _head_start, dispense

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


def test_what_is_held_already_counts_as_seats() -> None:
    assert dispense(2, {"a": 1, "b": 1}, initial={"a": 2}) == {"a": 2, "b": 2}


def test_without_any_weight_nothing_is_handed_out() -> None:
    assert dispense(3, {"a": 0, "b": 0}, initial={"a": 1}) == {"a": 1}
    assert dispense(3, {"a": 0}) == {"a": 0}


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

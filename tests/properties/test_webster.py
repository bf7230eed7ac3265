from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apimachinery.names import fnv1a32
from controlplane.scheduling.webster import dispense

names = st.sampled_from([f"member{number}" for number in range(12)])
weights = st.dictionaries(names, st.integers(0, 5) | st.integers(0, 2**31), min_size=1)
held = st.dictionaries(names, st.integers(0, 60), max_size=6)
uids = st.sampled_from(["", "a", "b", "c", "36ef3241-addf-8085-9a7c-3cca57f2fae2"])


def one_by_one(replicas: int, weights: dict[str, int], initial: dict[str, int], uid: str) -> dict[str, int]:
    """Divide as the method is described: look at every target for every replica."""
    seats = {**dict.fromkeys(weights, 0), **initial}
    names = sorted(name for name, weight in weights.items() if weight)
    if uid and fnv1a32(uid) % 2:
        names.reverse()
    for _ in range(replicas if names else 0):
        winner = max(names, key=lambda name: (float(weights[name]) / float(2 * seats[name] + 1), -seats[name]))
        seats[winner] += 1
    return seats


@given(st.integers(1, 300), weights, held, uids)
def test_the_head_start_changes_nothing(
    replicas: int, weights: dict[str, int], initial: dict[str, int], uid: str
) -> None:
    expected = initial if initial and not any(weights.values()) else one_by_one(replicas, weights, initial, uid)

    assert dispense(replicas, weights, initial=initial, uid=uid) == expected


@given(st.integers(0, 20_000), weights, held, uids)
def test_no_replica_is_lost_made_up_or_taken_away(
    replicas: int, weights: dict[str, int], initial: dict[str, int], uid: str
) -> None:
    seats = dispense(replicas, weights, initial=initial, uid=uid)

    handed_out = replicas if any(weights.values()) else 0
    assert sum(seats.values()) == sum(initial.values()) + handed_out
    assert all(seats[name] >= count for name, count in initial.items())


@given(weights, st.fractions(0, 1), uids)
def test_a_capacity_is_never_exceeded_when_all_of_it_suffices(
    capacity: dict[str, int], share: Fraction, uid: str
) -> None:
    capacity = {name: room % 500 for name, room in capacity.items()}
    replicas = int(share * sum(capacity.values()))

    seats = dispense(replicas, capacity, uid=uid)

    assert all(seats[name] <= room for name, room in capacity.items())


@given(st.integers(0, 500), weights, held, uids)
def test_the_order_targets_are_named_in_does_not_matter(
    replicas: int, weights: dict[str, int], initial: dict[str, int], uid: str
) -> None:
    turned = dict(reversed(weights.items()))

    assert dispense(replicas, weights, initial=initial, uid=uid) == dispense(replicas, turned, initial=initial, uid=uid)

"""How `apply` cuts what it is given into transactions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apps.objects.batch import BYTES_PER_OBJECT, MAX_OBJECTS, SLACK, Texts, batches, items_of
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.engine.decision import Decision, Event, Put
from controlplane.engine.state import Actor
from controlplane.kinds.template import Template

BY = Actor("test")


def decision(number: int, objects: int, events: int = 0) -> Decision:
    """Return a decision that creates objects of its own, which no other decision writes, and reports Events."""
    made = [Template("v1", "ConfigMap", ObjectMeta(name=f"c{number}-{one}", namespace="a")) for one in range(objects)]
    reported = tuple(Event(made[0], f"Reason{one}", "reported") for one in range(events))
    return Decision(changes=tuple(Put(one, None) for one in made), events=reported)


def weights(sizes: list[tuple[int, int]]) -> list[list[int]]:
    """Return what the parts of decisions of these (objects, events) weigh, decision by decision."""
    decisions = [(None, decision(number, *size)) for number, size in enumerate(sizes)]
    return [[len(item.refs) + len(item.event_refs) for item in part] for part in batches(items_of(decisions, by=BY))]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=900))
def test_parts_are_few_and_of_one_size(sizes: list[tuple[int, int]]) -> None:
    parts = weights(sizes)
    total = sum(map(sum, sizes))
    assert [weight for part in parts for weight in part] == [sum(size) for size in sizes]
    assert len(parts) <= -(-total // (MAX_OBJECTS - 2 * 8))
    heavy = [sum(part) for part in parts]
    assert all(one <= MAX_OBJECTS for one in heavy)
    assert max(heavy, default=0) - min(heavy, default=0) <= (SLACK + 8) * max(len(parts), 1)


def test_a_decision_is_never_cut() -> None:
    parts = weights([(1, 0), (MAX_OBJECTS + 50, 0), (1, 0)])
    assert parts == [[1], [MAX_OBJECTS + 50], [1]]


def test_what_was_written_is_touched_again_in_the_next_part_only() -> None:
    one, other = decision(1, 1), decision(2, 1)
    parts = list(batches(items_of([(None, found) for found in (one, other, one, other)], by=BY)))
    assert [[item.decision for item in part] for part in parts] == [[one, other], [one, other]]


def test_a_part_has_no_more_bytes_of_large_documents_than_of_many_small_ones() -> None:
    large = 50 * BYTES_PER_OBJECT
    name = ObjectMeta(name="large", namespace="a")
    decisions = []
    for number in range(20):
        content = {"data": {"file": "x" * large}}
        made = Template("v1", "ConfigMap", replace(name, name=f"large-{number}"), content)
        decisions.append((None, Decision(changes=(Put(made, None),))))
    parts = list(batches(items_of(decisions, by=BY), texts=Texts()))
    assert [len(part) for part in parts] == [7, 7, 6]
    assert all(len(part) * large <= MAX_OBJECTS * BYTES_PER_OBJECT for part in parts)

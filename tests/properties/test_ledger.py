"""The ledger counts a few clusters one by one and many at once, and both ways give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.estimate.request import Asked, Bundle, NodeTerms, Request
from controlplane.estimate.summary import summarise
from controlplane.kinds.cluster import Cluster
from controlplane.scheduling.cluster_arrays import FEW, Fleet
from controlplane.scheduling.ledger import Ledger
from controlplane.settings import GATES, Settings
from tests.builders.objects import cluster

SETTINGS = Settings(enable_scheduler_estimator=True, feature_gates={**GATES, "MultiplePodTemplatesScheduling": True})
ZONE_A, ZONE_B = (NodeTerms(selector=(("zone", zone),)) for zone in "ab")
HUGE = Request((("cpu", 2**63 - 1),))
REQUESTS: tuple[Asked, ...] = (
    Request((("cpu", 500),)),
    Request((("cpu", 1500), ("memory", 2**30))),
    Request((("cpu", 1000),), nodes=NodeTerms()),
    Request((("cpu", 700), ("memory", 2**29)), nodes=ZONE_A),
    Request(slot_only=True, nodes=ZONE_B),
    HUGE,
    Bundle(((2, Request((("cpu", 300),), nodes=NodeTerms())), (1, Request((("memory", 2**30),), nodes=NodeTerms())))),
)
TOUCHED = 3  # clusters with reservations: as many as a small fleet has


def _node(zone: str, cpu: int, pods: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{zone}{cpu}", "labels": {"zone": zone}},
        "spec": {},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "8Gi", "pods": str(pods)}},
    }


def _member(number: int) -> Cluster:
    nodes = [_node("a", 2 + number, 5), _node("b", 4 + 2 * number, 7)]
    return cluster(f"member{number}", summary=summarise(nodes, (), single_nodes=True))


MEMBERS = [_member(number) for number in range(2 * FEW + 1)]
SMALL = Fleet.of(MEMBERS[:TOUCHED], settings=SETTINGS)
LARGE = Fleet.of(MEMBERS, settings=SETTINGS)

steps = st.lists(
    st.tuples(
        st.sampled_from(REQUESTS),
        st.dictionaries(st.integers(0, TOUCHED - 1), st.integers(-1, 3), min_size=1),
        st.lists(st.sampled_from(REQUESTS), max_size=3),
    ),
    max_size=12,
)


def _free(ledger: Ledger, asked: Asked) -> list[int]:
    found: list[int] = ledger.free(asked)[:TOUCHED].tolist()
    return found


@given(steps)
def test_a_few_clusters_are_counted_as_many_are(taken: list[tuple[Asked, dict[int, int], list[Asked]]]) -> None:
    small, few, many = Ledger(SMALL), Ledger(LARGE), Ledger(LARGE)
    for asked, counts, questions in taken:
        for place, count in counts.items():
            for ledger in (small, few):
                ledger.reserve(np.array([place]), np.array([count]), asked)
        everywhere = np.array([counts.get(place, 0) for place in range(LARGE.size)], dtype=np.int64)
        many.reserve(np.arange(LARGE.size), everywhere, asked)
        for question in questions:
            assert _free(small, question) == _free(few, question) == _free(many, question)
    for asked, counts, _ in taken:
        places = np.array(sorted(counts))
        guards = [ledger.capacity_guards(places, asked, seen=7) for ledger in (small, few, many)]
        assert guards[0] == guards[1] == guards[2]
        left = dict(zip(SMALL.names, _free(small, asked), strict=True))
        assert all(min(amount for _, amount in guard.spare) >= 0 for guard in guards[0])
        assert {name for name, count in left.items() if count > 0 and SMALL.index[name] in counts} <= {
            guard.cluster for guard in guards[0]
        }


@pytest.mark.parametrize("fleet", [SMALL, LARGE], ids=["few", "many"])
def test_amounts_beyond_64_bits_take_all_until_they_are_given_back(fleet: Fleet) -> None:
    ledger, places, ones = Ledger(fleet), np.arange(fleet.size), np.ones(fleet.size, dtype=np.int64)
    before = ledger.free(REQUESTS[0])
    ledger.reserve(places, 2 * ones, REQUESTS[0])
    for _ in range(3):
        ledger.reserve(places, 2 * ones, HUGE)

    assert not ledger.free(REQUESTS[0]).any()
    ledger.reserve(places, -6 * ones, HUGE)
    assert ledger.free(REQUESTS[0]).tolist() == (before - 2).tolist()
    assert ledger.free(REQUESTS[0]).dtype == np.int64


def test_the_parts_of_a_bundle_take_nothing_on_other_nodes() -> None:
    fleet = Fleet.of(
        [cluster("member", summary=summarise([_node("a", 9, 9), _node("b", 9, 9)], (), single_nodes=True))],
        settings=SETTINGS,
    )
    ledger = Ledger(fleet)

    ledger.reserve(np.array([0]), np.array([1]), Bundle(((3, Request((("cpu", 2000),), nodes=ZONE_A)),)))

    assert [ledger.free(Request((("cpu", 1000),), nodes=nodes)).tolist() for nodes in (ZONE_A, ZONE_B)] == [[3], [9]]

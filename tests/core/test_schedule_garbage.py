"""A question to the scheduler leaves nothing that only the garbage collector can free.

What a rehearsal leaves in a cycle keeps the documents of its whole batch, because a frame keeps those of its callers.
"""

from __future__ import annotations

import gc

import pytest

from controlplane.kinds.binding import ResourceBindingSpec, ResourceBindingStatus
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import SpreadConstraint
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.scheduling.schedule import schedule
from controlplane.settings import Settings
from tests.builders.objects import cluster
from tests.builders.placements import DYNAMIC, placement
from tests.builders.scheduling import spec

ONE_REGION = (SpreadConstraint(spread_by_field="region", min_groups=1, max_groups=1),)
TEN_REGIONS = (SpreadConstraint(spread_by_field="region", min_groups=10, max_groups=10),)


@pytest.mark.parametrize("unavailable", [(), ("b",)])
@pytest.mark.parametrize(
    ("wanted", "refused"),
    [
        (spec(placement(how=DYNAMIC), replicas=100), True),  # too little capacity
        (spec(placement(), replicas=1, on={"a": 1}), False),
        (spec(placement(how=DYNAMIC, spread=ONE_REGION), replicas=2), False),
        (spec(placement(how=DYNAMIC, spread=TEN_REGIONS), replicas=2), True),  # not so many regions
        (spec(placement("gone", how=DYNAMIC), replicas=2), True),  # no cluster
    ],
)
def test_a_question_leaves_no_garbage(wanted: ResourceBindingSpec, refused: bool, unavailable: tuple[str, ...]) -> None:
    settings = Settings()
    clusters = [
        cluster("a", room=9, region="west"),
        cluster("b", room=9, region="east", taints=[Taint("x", "NoSchedule")]),
    ]
    fleet = Fleet.of(clusters, settings=settings)

    def ask() -> bool:
        verdict = schedule(wanted, ResourceBindingStatus(), fleet, settings=settings, unavailable=unavailable)
        return not hasattr(verdict.outcome, "clusters")

    assert ask() is refused  # the fleet keeps some answers
    gc.collect()
    gc.disable()
    try:
        ask()
        found = gc.collect()
    finally:
        gc.enable()

    assert found == 0

"""A copy that an eviction has removed and that goes back to its cluster is no growth in a quota [federated-quotas]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.controllers.graceful_eviction import GracefulEviction
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import APPLICATION_FAILURE, SCHEDULED, TAINT_UNTOLERATED, Binding, origin
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, Placement
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import DYNAMIC, duplicated, placement
from tests.core.test_federated_quotas import quota
from tests.core.test_quota_paths import Place, taken

ONE_COPY = duplicated(least=1, most=1)


def evicted(where: Placement, mode: str, reason: str) -> Binding:
    """Return a binding whose two replicas left member1, and for which the scheduler found no other cluster."""
    old = binding("web", where, on={"member1": 2}, cpu="1").with_status(last_scheduled_time=START - timedelta(hours=1))
    new = with_task(old, "member1", mode=mode, reason=reason, producer="", message="", now=START)
    failed = Condition(SCHEDULED, "False", "NoClusterFit", observed_generation=9)
    return origin.with_departures(new, old, now=START).with_status(conditions=(failed,))


@pytest.mark.parametrize(
    ("mode", "reason"),
    [(DIRECTLY, TAINT_UNTOLERATED), (DIRECTLY, APPLICATION_FAILURE), (GRACEFULLY, TAINT_UNTOLERATED)],
)
@pytest.mark.parametrize("where", [ONE_COPY, placement(how=DYNAMIC)], ids=["duplicated", "divided"])
@pytest.mark.parametrize("limit", ["1", "2"], ids=["over-its-quota", "taken-by-another"])
def test_a_copy_that_is_placed_nowhere_else_goes_back_although_the_quota_is_full(
    limit: str, where: Placement, mode: str, reason: str
) -> None:
    one = evicted(where, mode, reason)
    place = Place(GracefulEviction(), cluster("member1"), cluster("member2"), quota(cpu=limit), taken(2), one)

    place.work()
    place.work(seconds=2)

    assert place.places(one) == {"member1": 2}

"""Wherever copies were, going back takes no replica away and gives no cluster more than its share."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from controlplane.engine.state import ReservedCapacity
from controlplane.eviction.failback import FailbackPlan, FailbackPlanner, FailbackRequest
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import Binding, TargetCluster, origin
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import by_weight

NAMES = [f"member{number}" for number in range(1, 6)]
MEMBERS = [cluster(name) for name in NAMES]
ANYWHERE = by_weight(**dict.fromkeys(NAMES, 1))
SHARES = st.dictionaries(st.sampled_from(NAMES[1:]), st.integers(1, 9), max_size=4)


def away(was: dict[str, int], now: dict[str, int]) -> Binding:
    """A Divided binding that was placed one way and is placed another, away from member1."""
    old = binding("web", ANYWHERE, on=was, replicas=sum(now.values()))
    gone = with_task(old, "member1", mode="Gracefully", reason="", producer="", message="", now=START)
    new = origin.with_departures(gone, old, now=START)
    return new.with_spec(clusters=tuple(TargetCluster(*pair) for pair in now.items()), graceful_eviction_tasks=())


@given(share=st.integers(1, 9), others=SHARES, now=SHARES.filter(bool))
def test_replicas_only_change_places(share: int, others: dict[str, int], now: dict[str, int]) -> None:
    one = away({"member1": share, **others}, now)
    known = origin.origin_of(one)
    assert known is not None
    trial = FailbackPlanner(MEMBERS, ReservedCapacity(), Settings(), now=START + timedelta(hours=1))

    way = trial.plan(one, known, "member1", FailbackRequest("", ""))

    if not isinstance(way, FailbackPlan):
        return
    spec = way.binding.spec
    targets = {target.name: target.replicas for target in spec.clusters}
    kept = {task.from_cluster: task.replicas or 0 for task in spec.graceful_eviction_tasks}
    assert sum(targets.values()) == sum(now.values())
    assert {name: targets.get(name, 0) + kept.get(name, 0) for name in now} == now
    assert targets["member1"] == way.replicas == sum(kept.values())
    assert set(way.leaves) == set(kept)
    whole = {name for name in kept if name not in targets}
    assert all(spec.replicas_returning(name) == (0 if name in whole else kept[name]) for name in kept)
    taken = {name for name in kept if name in others}
    assert not taken or set(targets) <= {"member1", *others}, "one of its home gave while a stand-in kept replicas"

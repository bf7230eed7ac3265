"""What was judged when a taint appeared stays judged, whatever is edited later [judged-once]
[tolerated-is-not-evicted]."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.clusters.tolerations import tolerates
from controlplane.eviction.eligibility import earliest_judgement, judge_taints
from controlplane.kinds.binding import ObjectReference, ResourceBindingSpec
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import ClusterFailoverBehavior, FailoverBehavior, Placement, Toleration
from tests.builders.objects import START, cluster

KEYS = st.sampled_from(["a", "b", "c"])
SECONDS = st.none() | st.integers(-10, 500)
TOLERATIONS = st.builds(
    Toleration,
    key=KEYS | st.just(""),
    operator=st.sampled_from(["", "Exists", "Equal"]),
    effect=st.sampled_from(["", "NoExecute", "NoSchedule"]),
    toleration_seconds=SECONDS,
)
TAINTS = st.lists(
    st.builds(
        Taint,
        key=KEYS,
        effect=st.sampled_from(["NoExecute", "PreferNoExecute", "NoSchedule"]),
        time_added=st.integers(0, 1000).map(lambda seconds: START + timedelta(seconds=seconds)),
    ),
    max_size=4,
    unique_by=lambda taint: (taint.key, taint.effect),
)
BEHAVIOUR = st.none() | st.builds(
    FailoverBehavior,
    cluster=st.none() | st.builds(ClusterFailoverBehavior, toleration_seconds=st.integers(0, 500)),
)
SPECS = st.builds(
    ResourceBindingSpec,
    resource=st.just(ObjectReference("apps/v1", "Deployment", "web")),
    placement=st.none() | st.builds(Placement, cluster_tolerations=st.lists(TOLERATIONS, max_size=4).map(tuple)),
    failover=BEHAVIOUR,
)


def tainted(taints: list[Taint]) -> Cluster:
    return cluster("member1", taints=taints)


@given(SPECS, SPECS, TAINTS)
def test_later_edits_change_no_judgement(
    first: ResourceBindingSpec, later: ResourceBindingSpec, taints: list[Taint]
) -> None:
    before = judge_taints(first, tainted(taints), (), clocks_from=START)

    assert judge_taints(later, tainted(taints), before, clocks_from=START) == before


@given(SPECS, TAINTS, TAINTS)
def test_a_new_taint_leaves_the_judgements_of_the_old_ones_alone(
    spec: ResourceBindingSpec, taints: list[Taint], more: list[Taint]
) -> None:
    known = {(taint.key, taint.effect) for taint in taints}
    new = [taint for taint in more if (taint.key, taint.effect) not in known]
    before = judge_taints(spec, tainted(taints), (), clocks_from=START)

    after = judge_taints(spec, tainted(taints + new), before, clocks_from=START)

    assert set(before) <= set(after)


@given(SPECS, TAINTS, st.integers(0, 2000))
def test_no_clock_counts_from_before_it_may(spec: ResourceBindingSpec, taints: list[Taint], late: int) -> None:
    start = START + timedelta(seconds=late)

    for one in judge_taints(spec, tainted(taints), (), clocks_from=start):
        assert one.due_at is None or one.due_at >= start


@given(SPECS.map(lambda spec: replace(spec, failover=None)), TAINTS)
def test_all_taints_judged_together_agree_with_the_tolerations_of_the_reference(
    spec: ResourceBindingSpec, taints: list[Taint]
) -> None:
    """Taint by taint and all at once are the same question while nothing was judged before [taint-manager]."""
    now = START + timedelta(days=1)
    tolerations = () if spec.placement is None else spec.placement.cluster_tolerations
    expected = leaves_at(taints, tolerations)
    found = earliest_judgement(judge_taints(spec, tainted(taints), (), clocks_from=START))

    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found.due_at is not None
        untolerated_first = min(found.due_at, now)
        assert untolerated_first <= max(expected, START)


def leaves_at(taints: list[Taint], tolerations: Sequence[Toleration]) -> datetime | None:
    """Return when NoExecute taints drive a placement away: an untolerated one at once; else the first toleration
    that tolerates a taint is used, and a used one with seconds runs for every taint it tolerates."""
    moving = [(one.time_added, one) for one in taints if one.effect == "NoExecute" and one.time_added is not None]
    if driving := [added for added, taint in moving if not any(tolerates(one, taint) for one in tolerations)]:
        return min(driving)
    used = [next(one for one in tolerations if tolerates(one, taint)) for _, taint in moving]
    return min(
        (
            added + timedelta(seconds=max(0, one.toleration_seconds))
            for one in used
            if one.toleration_seconds is not None
            for added, taint in moving
            if tolerates(one, taint)
        ),
        default=None,
    )

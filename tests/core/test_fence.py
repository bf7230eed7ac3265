"""A fence is an operator's word about a cluster that does not answer: with a reason, an author and an end (D14)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.errors import Invalid
from controlplane.fence import FenceRequest, fence_of, fenced, in_force
from controlplane.meta import Condition
from tests.core.fleet_story import START, cluster

GOOD = FenceRequest("the building has no power", 600)


def test_a_fence_says_who_why_and_until_when() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)

    fence = fence_of(down)

    assert fence is not None
    assert (fence.by, fence.reason, fence.expires_at) == ("ana", GOOD.reason, START + timedelta(seconds=600))


@pytest.mark.parametrize(
    ("ready", "after", "counts"), [("False", 599, True), ("Unknown", 599, True), ("False", 600, False)]
)
def test_a_fence_counts_until_it_expires(ready: str, after: int, counts: bool) -> None:
    down = fenced(cluster("member1", ready=ready), GOOD, by="ana", now=START)

    assert (in_force(down, now=START + timedelta(seconds=after)) is not None) is counts


def test_a_cluster_that_answers_again_is_not_fenced() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    back = down.with_status(conditions=cluster("member1").status.conditions)

    assert in_force(back, now=START) is None


def test_d22_a_cluster_that_is_ready_by_its_last_word_only_may_be_fenced() -> None:
    shut = cluster("member1")
    lost = Condition("AccessLost", "True", "AccessRefused")
    shut = shut.with_status(conditions=(*shut.status.conditions, lost))

    assert in_force(fenced(shut, GOOD, by="ana", now=START), now=START) is not None


def test_an_empty_request_takes_the_fence_away() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)

    assert fence_of(fenced(down, FenceRequest(), by="ana", now=START)) is None


@pytest.mark.parametrize(
    ("asked", "ready", "field"),
    [
        (FenceRequest("", 600), "False", "reason"),
        (FenceRequest("no power", 0), "False", "expiresInSeconds"),
        (FenceRequest("no power", 10**9), "False", "expiresInSeconds"),
        (GOOD, "True", "cluster"),
    ],
)
def test_a_fence_without_a_reason_or_an_end_or_on_a_ready_cluster_is_refused(
    asked: FenceRequest, ready: str, field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        fenced(cluster("member1", ready=ready), asked, by="ana", now=START)

    assert [cause.field for cause in refused.value.details.causes] == [field]


def test_text_that_is_no_fence_confirms_nothing() -> None:
    odd = cluster("member1", ready="False").with_meta(annotations={"failover.lifeboat.io/fence": "yes"})

    assert in_force(odd, now=START) is None

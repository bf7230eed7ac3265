"""A fence confirms that a cluster is down: with a reason, an author and an end, and for one outage only."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.admission.admit import admit_update
from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.names import FENCE_ANNOTATION
from controlplane.clusters.fence import FenceRequest, check, fence_of, fenced, in_force
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster
from controlplane.settings import Settings
from tests.builders.objects import START, cluster

GOOD = FenceRequest("the building has no power", 600)


def test_a_fence_says_who_why_and_until_when() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)

    fence = fence_of(down)

    assert fence is not None
    assert (fence.by, fence.reason, fence.expires_at) == ("ana", GOOD.reason, START + timedelta(seconds=600))


@pytest.mark.parametrize(
    ("ready", "after", "counts"),
    [("False", 599, True), ("Unknown", 599, True), ("False", 600, False), ("False", 601, False)],
)
def test_a_fence_counts_until_it_expires(ready: str, after: int, counts: bool) -> None:
    down = fenced(cluster("member1", ready=ready), GOOD, by="ana", now=START)

    assert (in_force(down, now=START + timedelta(seconds=after)) is not None) is counts


def test_a_cluster_that_answers_again_is_not_fenced() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    back = down.with_status(conditions=cluster("member1").status.conditions)

    assert in_force(back, now=START) is None


def test_a_cluster_that_is_ready_by_its_last_word_only_may_be_fenced() -> None:
    shut = cluster("member1")
    lost = Condition("AccessLost", "True", "AccessRefused")
    shut = shut.with_status(conditions=(*shut.status.conditions, lost))

    assert in_force(fenced(shut, GOOD, by="ana", now=START), now=START) is not None


def test_an_empty_request_takes_the_fence_away_and_nothing_else() -> None:
    others = {"a.example.io/first": "1", "z.example.io/last": "2"}
    down = fenced(cluster("member1", ready="False").with_meta(annotations=others), GOOD, by="ana", now=START)

    after = fenced(down, FenceRequest(), by="ana", now=START)

    assert fence_of(after) is None
    assert after.metadata.annotations == others


def test_a_fence_may_last_a_week_to_the_second() -> None:
    week = FenceRequest("the building is gone", 7 * 24 * 3600)

    assert fence_of(fenced(cluster("member1", ready="False"), week, by="ana", now=START)) is not None


@pytest.mark.parametrize(
    ("asked", "ready", "field"),
    [
        (FenceRequest("", 600), "False", "reason"),
        (FenceRequest("no power", 0), "False", "expiresInSeconds"),
        (FenceRequest("no power", -600), "False", "expiresInSeconds"),
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


@pytest.mark.parametrize(("answered", "counts"), [(-1, True), (0, True), (0.25, True), (0.5, False)])
def test_a_fence_ends_for_good_with_an_answer_after_it_was_made(answered: float, counts: bool) -> None:
    made_at = START + timedelta(seconds=0.25)
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=made_at)
    answered_at = START + timedelta(seconds=answered)

    assert (in_force(down, answered_at=answered_at, now=START + timedelta(seconds=300)) is not None) is counts


@pytest.mark.parametrize(
    ("began", "why", "counts"),
    [
        (-60, "AccessRefused", True),
        (0, "AccessRefused", True),  # conditions know whole seconds: within that of the fence, the operator knew
        (1, "AccessRefused", False),
        (60, "AccessRefused", False),
        (60, "Misconfigured", True),
    ],
)
def test_a_member_that_begins_to_refuse_us_after_the_fence_was_made_is_up(began: int, why: str, counts: bool) -> None:
    lost = Condition("AccessLost", "True", why, last_transition_time=START + timedelta(seconds=began))
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    shut = down.with_status(conditions=(*down.status.conditions, lost))

    assert (in_force(shut, now=START + timedelta(seconds=90)) is not None) is counts


def test_settling_says_how_a_fence_stands_and_takes_away_one_that_has_ended() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)

    standing = check(down, answered_at=None, now=START)
    ended = check(standing.cluster, answered_at=None, now=START + timedelta(seconds=600))
    untouched = check(ended.cluster, answered_at=None, now=START + timedelta(seconds=700))

    published = condition(standing.cluster.status.conditions, "Fenced")
    assert published is not None
    assert (published.status, published.message) == (
        "True",
        "confirmed down by ana until 2026-01-01T00:10:00Z: the building has no power",
    )
    assert standing.wake_at == START + timedelta(seconds=600)
    assert fence_of(ended.cluster) is None
    assert untouched.cluster is ended.cluster


@pytest.mark.parametrize(
    ("answered", "after", "reason", "message"),
    [
        (None, 600, "Expired", "it expired at 2026-01-01T00:10:00Z"),
        (60, 90, "ClusterAnswered", "the cluster answered after the fence was made at 2026-01-01T00:00:00Z"),
        (60, 600, "ClusterAnswered", "the cluster answered after the fence was made at 2026-01-01T00:00:00Z"),
    ],
)
def test_the_condition_reports_why_a_fence_has_ended(
    answered: int | None, after: int, reason: str, message: str
) -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    answered_at = None if answered is None else START + timedelta(seconds=answered)

    ended = check(down, answered_at=answered_at, now=START + timedelta(seconds=after)).cluster

    reported = condition(ended.status.conditions, "Fenced")
    assert reported is not None
    assert (reported.status, reported.reason) == ("False", reason)
    assert reported.message == f"the fence of ana has ended: {message}"


def test_a_fence_that_was_taken_away_leaves_a_condition_that_says_so() -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    standing = check(down, answered_at=None, now=START).cluster

    left = check(fenced(standing, FenceRequest(), by="ana", now=START), answered_at=None, now=START).cluster

    published = condition(left.status.conditions, "Fenced")
    assert published is not None
    assert (published.status, published.reason) == ("False", "TakenAway")


@pytest.mark.parametrize("text", ["yes", '{"by":"eve","reason":"x","madeAt":"2099-01-01T00:00:00Z"}'])
def test_a_fence_is_not_written_as_an_annotation(text: str) -> None:
    down = cluster("member1", ready="False")
    doc = {"metadata": {"name": "member1", "annotations": {FENCE_ANNOTATION: text}}, "spec": {"syncMode": "Pull"}}

    with pytest.raises(Invalid) as refused:
        admit_update(KINDS[CLUSTER], doc, down, settings=Settings(), now=START)

    (cause,) = refused.value.details.causes
    assert cause.field == f"metadata.annotations[{FENCE_ANNOTATION}]"
    assert "lifeboat fence" in cause.message


@pytest.mark.parametrize("kept", [True, False])
def test_an_ordinary_write_keeps_a_fence_or_takes_it_away(kept: bool) -> None:
    down = fenced(cluster("member1", ready="False"), GOOD, by="ana", now=START)
    annotations = down.metadata.annotations if kept else {}
    doc = {"metadata": {"name": "member1", "annotations": annotations}, "spec": {"syncMode": "Pull"}}

    written = admit_update(KINDS[CLUSTER], doc, down, settings=Settings(), now=START).object

    assert isinstance(written, Cluster)
    assert (fence_of(written) is not None) is kept

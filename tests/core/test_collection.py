"""Which reports of a member are kept: what it is at once, what its pods take once a minute."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.clusters.questions import Answer
from controlplane.controllers.collection import Collection, CollectionSnapshot
from controlplane.engine.decision import Save
from controlplane.estimate.resource_models import DEFAULT_MODELS
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster, ClusterStatus
from controlplane.kinds.rows import Collected
from controlplane.settings import Settings
from tests.builders.objects import START, cluster
from tests.guide_fleet import node, pod

APPS = {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
BATCH = {"groupVersion": "batch/v1", "resources": [{"name": "jobs", "kind": "Job"}]}


def body(*, pods: int = 1, nodes: int = 1, apis: tuple[Any, ...] = (APPS,), version: str = "v1.32.0") -> dict[str, Any]:
    return {
        "version": {"gitVersion": version},
        "apis": list(apis),
        "nodes": [node(f"n{number}", "8", "32Gi") for number in range(nodes)],
        "pods": [pod("n0", {"cpu": "1"}, name=f"p{number}") for number in range(pods)],
    }


class Member:
    """One member that is asked again and again; `kept` is the last report that was kept."""

    def __init__(self) -> None:
        self.subject: Cluster = cluster("member1").with_spec(resource_models=DEFAULT_MODELS)
        self.kept: Collected | None = None

    def reports(self, *, after: float, **what: Any) -> bool:
        """Let it report so many seconds after it joined; return whether that is kept."""
        now = START + timedelta(seconds=after)
        asked = CollectionSnapshot(self.subject, None, self.kept)
        decided = Collection().decide(asked, Settings(), now=now, answer=Answer(200, body(**what)))
        assert decided.wake_at is not None
        for change in decided.changes:
            assert isinstance(change, Save)
            assert isinstance(change.row, Collected)
            self.kept = change.row
        return bool(decided.changes)


def test_what_pods_take_is_kept_once_a_minute() -> None:
    member = Member()
    assert member.reports(after=0)

    kept = [second for second in range(10, 200, 10) if member.reports(after=second, pods=1 + second)]

    assert kept == [60, 120, 180]


def test_what_did_not_change_is_as_good_as_new() -> None:
    member = Member()
    member.reports(after=0)

    assert member.reports(after=10)
    assert member.kept is not None
    assert member.kept.at == START + timedelta(seconds=10)


@pytest.mark.parametrize("news", [{"nodes": 2}, {"apis": (APPS, BATCH)}, {"version": "v1.33.0"}])
def test_what_a_member_is_and_can_is_kept_at_once(news: dict[str, Any]) -> None:
    member = Member()
    member.reports(after=0)

    assert member.reports(after=10, pods=5, **news)


def test_other_grades_are_counted_at_once() -> None:
    member = Member()
    member.reports(after=0)
    member.subject = member.subject.with_spec(resource_models=DEFAULT_MODELS[:3])

    assert member.reports(after=10, pods=5)


def test_a_member_without_an_address_is_not_asked_and_one_that_gets_an_address_is_due() -> None:
    without = cluster("member1").with_spec(api_endpoint="")
    ready = without.with_spec(api_endpoint="https://member1.example:6443")
    became_ready = next(watch for watch in Collection.watches if watch.kind == CLUSTER)

    assert Collection().question(CollectionSnapshot(without, None), Settings(), now=START) is None
    assert Collection().question(CollectionSnapshot(ready, None), Settings(), now=START) is not None
    assert list(became_ready.to(without, ready)) == [ready.ref]


def test_a_member_whose_nodes_may_not_be_listed_says_so() -> None:
    """It is Ready, because /readyz needs no rights, and nothing is placed on it, or as on a full one, for ever."""
    refused = Answer(403, problem='HTTP 403: nodes is forbidden: User "lifeboat" cannot list', access=True)
    member, lost = Member(), Condition("AccessLost", "True", "AccessRefused")

    def said(*, after: float, of: Cluster = member.subject) -> list[str]:
        asked = CollectionSnapshot(of, None, member.kept)
        decided = Collection().decide(asked, Settings(), now=START + timedelta(seconds=after), answer=refused)
        assert not decided.changes
        return [event.message for event in decided.events if event.warning and event.reason == "MemberNotRead"]

    [never_read] = said(after=0)
    assert 'nodes is forbidden: User "lifeboat" cannot list' in never_read
    member.reports(after=10)
    assert [len(said(after=10 + seconds)) for seconds in (10, 110, 120)] == [0, 0, 1]
    refusing = (*member.subject.status.conditions, lost)
    assert said(after=200, of=replace(member.subject, status=ClusterStatus(conditions=refusing))) == []

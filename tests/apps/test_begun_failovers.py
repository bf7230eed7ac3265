"""Lists of failovers name what began them, newest first, with a constant number of queries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.failover.begun import FailoverChoice, begun_page, binding_of
from apps.objects import failovers
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.insight.begun import outages
from tests.apps.pages import found, stored
from tests.apps.statements import statements
from tests.apps.test_records import changed, evicted, tainted
from tests.builders.bare import binding, cluster


def left(*names: str) -> list[Ref]:
    """Store bindings on member1 that leave it, in this order."""
    refs = [made.ref for made in stored(*(binding(name, "member1", "member2") for name in names))]
    for ref in refs:
        evicted(ref)
    return refs


def names(choice: FailoverChoice) -> list[str]:
    return [begun.binding.name for begun in begun_page(choice).failovers]


def test_failovers_are_listed_newest_first_with_what_they_leave(root: Client) -> None:
    stored(cluster("member1"))
    left("web", "api")

    page = begun_page(FailoverChoice())

    assert [begun.binding.name for begun in page.failovers] == ["api", "web"]
    first = page.failovers[0]
    assert (first.left, [target.name for target in first.before]) == (("member1",), ["member1", "member2"])
    assert (first.reason, first.namespace) == ("TaintUntolerated", "shop")
    assert page.running == {begun.name for begun in page.failovers}
    assert page.after is None


def test_a_failover_has_finished_when_its_task_is_gone(root: Client) -> None:
    stored(cluster("member1"))
    (ref,) = left("web")
    old = found(ref)
    changed(old, old.with_spec(graceful_eviction_tasks=()))

    assert begun_page(FailoverChoice()).running == frozenset()


def test_the_name_of_a_listed_failover_is_that_of_its_record(root: Client) -> None:
    place = stored(cluster("member1"))[0].ref
    tainted(place)
    (ref,) = left("web")

    (begun,) = begun_page(FailoverChoice()).failovers
    (record,) = failovers.of_binding(ref)

    assert (begun.name, begun.namespace) == (record.metadata.name, record.metadata.namespace)
    assert binding_of(begun.name) == ref
    assert binding_of("web.999999999") is None
    assert binding_of("web") is None


def test_a_list_is_filtered_by_cluster_namespace_time_and_binding(root: Client) -> None:
    stored(cluster("member1"))
    web, _ = left("web", "api")
    now = store().now()

    assert names(FailoverChoice(cluster="member1")) == ["api", "web"]
    assert names(FailoverChoice(cluster="member2")) == []
    assert names(FailoverChoice(namespace="shop")) == ["api", "web"]
    assert names(FailoverChoice(namespace="bank")) == []
    assert names(FailoverChoice(binding=web)) == ["web"]
    assert names(FailoverChoice(since=now + timedelta(seconds=5))) == []
    assert names(FailoverChoice(since=now - timedelta(minutes=5), until=now)) == ["api", "web"]
    assert names(FailoverChoice(until=now - timedelta(minutes=5))) == []


def test_pages_follow_each_other_and_cost_two_queries_each(root: Client) -> None:
    stored(cluster("member1"))
    left(*(f"web{number}" for number in range(5)))

    seen, before = list[str](), None
    for _ in range(3):
        with statements() as asked:
            page = begun_page(FailoverChoice(), before=before, limit=2)
        assert len(asked) == 2
        seen += [begun.binding.name for begun in page.failovers]
        before = page.after

    assert seen == ["web4", "web3", "web2", "web1", "web0"]
    assert before is None


@pytest.mark.parametrize(("pause", "count"), [(10, 1), (40, 2)])
def test_failovers_with_a_long_pause_between_them_are_two_outages(root: Client, pause: int, count: int) -> None:
    stored(cluster("member1"))
    left("web", "api")
    api, web = begun_page(FailoverChoice()).failovers

    found = outages([replace(api, at=web.at + timedelta(minutes=pause)), web])

    assert len(found) == count
    assert sum(outage.failover_count for outage in found) == 2
    assert found[0].until == web.at + timedelta(minutes=pause)

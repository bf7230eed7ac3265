"""The record of a failover does not fade: what a cluster reports before and afterwards takes nothing from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from apps.objects import failovers
from apps.objects.store import store
from controlplane.apimachinery.meta import Condition, Ref, to_seconds, with_condition
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import PendingEviction
from controlplane.kinds.cluster import NO_EXECUTE, Taint
from tests.apps.pages import found, stored
from tests.builders.bare import binding, cluster


def changed(old: Any, new: Any, *, reason: str = "") -> None:
    (outcome,) = store().apply([(None, Decision(changes=(Put(new, old),), reason=reason))], by=Actor("test"))
    assert not outcome.lost


def turned(ref: Ref, status: str) -> None:
    """From now on the cluster is Ready, or not."""
    old = found(ref)
    reported = Condition("Ready", status, "ClusterNotReachable", "connection refused")
    changed(old, old.with_status(conditions=with_condition(old.status.conditions, reported, now=now())))


def now() -> datetime:
    return to_seconds(store().now())


def reports(ref: Ref, times: int) -> None:
    """The cluster reports something else that often."""
    for number in range(times):
        old = found(ref)
        changed(old, old.with_status(kubernetes_version=f"{old.status.kubernetes_version}.{number}"))


def tainted(ref: Ref) -> None:
    old = found(ref)
    changed(old, old.with_spec(taints=(Taint("gone", NO_EXECUTE, "", now()),)))


def evicted(ref: Ref, leaves: str = "member1") -> None:
    """The binding leaves a cluster."""
    old = found(ref)
    fields = {"mode": "Gracefully", "reason": "TaintUntolerated", "producer": "TaintManager", "message": "gone"}
    changed(old, with_task(old, leaves, now=now(), **fields), reason="Evictions")  # type: ignore[arg-type]


def test_a_record_says_what_was_seen_however_much_the_cluster_has_reported_since(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failovers, "MOST_CHANGES", 30)
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    turned(place, "True")
    turned(place, "False")
    tainted(place)
    reports(place, 20)
    evicted(of)
    (before,) = failovers.of_binding(of)

    reports(place, 40)
    (after,), (listed,) = failovers.of_binding(of), failovers.of_fleet().records

    assert [step.what for step in before.status.steps] == ["Seen", "Tainted", "Decided"]
    assert before == after == listed


def test_what_a_cluster_went_through_long_before_is_not_reported(root: Client) -> None:
    """It was lost and came back; then a user tainted it."""
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    for status in ("True", "False", "True"):
        turned(place, status)
    tainted(place)
    evicted(of)

    (record,) = failovers.of_binding(of)

    assert [step.what for step in record.status.steps] == ["Tainted", "Decided"]


def test_what_the_binding_said_it_waited_for_is_reported_between_taint_and_decision(root: Client) -> None:
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    tainted(place)
    for state, reason, message in (
        ("Held", "OnHold", "EvictionHold release: we are releasing"),
        ("Queued", "Queued", "due 2026-03-01T02:37:05Z"),
    ):
        old, waiting = found(of), PendingEviction("member1", reason, message)
        pending = Condition("EvictionPending", "True", state, f"cluster member1: {message}")
        conditions = with_condition(old.status.conditions, pending, now=now())
        changed(old, old.with_status(conditions=conditions, pending_evictions=(waiting,)))
    evicted(of)

    (record,) = failovers.of_binding(of)

    assert [(step.what, step.cluster, step.message) for step in record.status.steps[1:]] == [
        ("WaitedFor", "member1", "OnHold: EvictionHold release: we are releasing"),
        ("WaitedFor", "member1", "Queued: due 2026-03-01T02:37:05Z"),
        ("Decided", "member1", "gone"),
    ]
    assert all(step.seconds >= 0 for step in record.status.steps)


def failed_over(names: Sequence[str], times: int) -> None:
    """Bindings leave member1 so often, and come back each time."""
    places = [made.ref for made in stored(cluster("member1"), *(binding(name, "member1") for name in names))][1:]
    for _ in range(times):
        old = store().get(places)
        fields = {"mode": "Gracefully", "reason": "TaintUntolerated", "producer": "TaintManager", "message": "gone"}
        gone = {ref: with_task(one, "member1", now=now(), **fields) for ref, one in old.items()}  # type: ignore[arg-type]
        written((Put(gone[ref], one) for ref, one in old.items()), reason="Evictions")
        left = store().get(places)
        back = {
            ref: one.with_spec(clusters=old[ref].spec.clusters, graceful_eviction_tasks=()) for ref, one in left.items()
        }
        written((Put(back[ref], one) for ref, one in left.items()), reason="GracefulEviction")


def written(changes: Iterable[Put], *, reason: str) -> None:
    outcomes = store().apply([(None, Decision(changes=(one,), reason=reason)) for one in changes], by=Actor("test"))
    assert not any(outcome.lost for outcome in outcomes)


@pytest.mark.parametrize("limit", [1, 3, 4, 100])
def test_pages_show_each_record_once_and_in_order(root: Client, limit: int) -> None:
    failed_over(["a", "b", "b.c"], times=4)
    everything = [one.metadata.name for one in failovers.of_fleet().records]

    found, after, pages = list[str](), None, 0
    while pages == 0 or after is not None:
        page = failovers.page(after=after, limit=limit)
        found += [one.metadata.name for one in page.records]
        assert len(page.records) <= limit
        after, pages = page.after, pages + 1

    assert found == everything
    assert len(found) == 12
    assert pages <= 12 / limit + 2


def test_what_fails_over_while_a_list_is_read_moves_no_place(root: Client) -> None:
    failed_over(["a", "b"], times=2)
    first = failovers.page(limit=3)
    evicted(binding("a", "member1").ref)

    rest = failovers.page(after=first.after, limit=10)

    assert len(first.records) == 3
    assert [failovers.place_of(one).binding for one in rest.records] == [binding("b", "member1").metadata.name]


def test_a_record_is_the_same_alone_and_in_a_list(root: Client) -> None:
    failed_over(["a", "b"], times=3)

    alone = [one for name in "ab" for one in failovers.of_binding(binding(name, "member1").ref)]

    assert alone == failovers.of_fleet().records
    assert [step.what for step in alone[-1].status.steps] == ["Decided", "Scheduled", "Cleared"]

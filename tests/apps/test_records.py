"""The record of a failover does not fade: what a cluster reports before and afterwards takes nothing from it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from apps.objects import failovers
from apps.objects.store import store
from controlplane.decision import Decision, Put
from controlplane.eviction.purge import leaving
from controlplane.kinds.cluster import NO_EXECUTE, Taint
from controlplane.meta import Condition, Ref, to_seconds, with_condition
from controlplane.state import Actor
from tests.apps.pages import found, stored
from tests.stores.grounds import binding, cluster


def changed(old: Any, new: Any, *, reason: str = "") -> None:
    (outcome,) = store().apply([(None, Decision(changes=(Put(new, old),), reason=reason))], by=Actor("test"))
    assert not outcome.lost


def turned(ref: Ref, status: str) -> None:
    """From now on the cluster is Ready, or not."""
    old = found(ref)
    told = Condition("Ready", status, "ClusterNotReachable", "connection refused")
    changed(old, old.with_status(conditions=with_condition(old.status.conditions, told, now=now())))


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


def evicted(ref: Ref) -> None:
    """The binding leaves member1."""
    old = found(ref)
    fields = {"mode": "Gracefully", "reason": "TaintUntolerated", "producer": "TaintManager", "message": "gone"}
    changed(old, leaving(old, "member1", now=now(), **fields), reason="Evictions")  # type: ignore[arg-type]


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
    (after,), (listed,) = failovers.of_binding(of), failovers.of_fleet()

    assert [step.what for step in before.status.steps] == ["Seen", "Tainted", "Decided"]
    assert before == after == listed


def test_what_a_cluster_went_through_long_before_is_not_told(root: Client) -> None:
    """It was lost and came back; then somebody tainted it."""
    place, of = (made.ref for made in stored(cluster("member1"), binding("web", "member1")))
    for status in ("True", "False", "True"):
        turned(place, status)
    tainted(place)
    evicted(of)

    (record,) = failovers.of_binding(of)

    assert [step.what for step in record.status.steps] == ["Tainted", "Decided"]

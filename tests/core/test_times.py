"""Moments people write have a zone and are kept in UTC: one that has none stops a comparison with the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.apimachinery.names import FENCE_ANNOTATION
from controlplane.clusters.fence import fence_of
from controlplane.kind import KINDS
from controlplane.kinds.maintenance_window import MaintenanceWindow
from tests.builders.documents import Document, cluster
from tests.builders.objects import cluster as typed_cluster
from tests.core.admitted import created, refused, updated

NAIVE, ABROAD = "2026-03-29T02:30:00", "2026-03-29T02:30:00+05:30"
GIVEN = datetime(2026, 3, 28, 21, 0, tzinfo=UTC)


def failover(kind: str, **spec: Any) -> Document:
    return {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "one"},
        "spec": {"reason": "new switches", **spec},
    }


def window(begins: str, until: str) -> Document:
    return failover("MaintenanceWindow", clusters=["member1"], **{"from": begins, "until": until})


CASES = [
    (lambda at: window(at, "2026-03-30T00:00:00Z"), "spec.from", lambda one: one.spec.begins),
    (lambda at: window("2026-03-01T00:00:00Z", at), "spec.until", lambda one: one.spec.until),
    (lambda at: failover("EvictionHold", expiresAt=at), "spec.expiresAt", lambda one: one.spec.expires_at),
    (
        lambda at: cluster(taints=[{"key": "a", "effect": "NoExecute", "timeAdded": at}]),
        "spec.taints[0].timeAdded",
        lambda one: one.spec.taints[0].time_added,
    ),
]


@pytest.mark.parametrize(("doc", "field", "kept"), CASES)
def test_a_moment_without_a_time_zone_is_refused_by_field_with_a_way_out(doc: Any, field: str, kept: Any) -> None:
    causes = refused(doc(NAIVE))

    assert [cause.field for cause in causes] == [field]
    assert "has no time zone; write it in UTC, for example 2026-11-22T03:12:00Z" in causes[0].message


@pytest.mark.parametrize(("doc", "field", "kept"), CASES)
def test_a_moment_of_another_zone_is_kept_in_utc(doc: Any, field: str, kept: Any) -> None:
    found = kept(created(doc(ABROAD)).object)

    assert found == GIVEN
    assert found.tzinfo is UTC


def test_moments_outside_the_years_there_are_in_utc_are_refused_together_with_what_else_is_wrong() -> None:
    doc = window("0001-01-01T00:00:00+05:30", "9999-12-31T23:59:59-11:00")
    doc["spec"]["reason"] = ""

    assert {cause.field for cause in refused(doc)} == {"spec.from", "spec.until", "spec.reason"}


def test_a_window_over_the_night_the_clocks_change_is_as_long_as_its_zones_say() -> None:
    """02:00 CET is followed by 03:00 CEST: from 01:30 to 03:30 by the wall is one hour."""
    found: MaintenanceWindow = created(window("2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00")).object

    assert found.spec.begins is not None
    assert found.spec.until is not None
    assert found.spec.until - found.spec.begins == timedelta(hours=1)
    assert not found.open(now=datetime(2026, 3, 29, 0, 29, 59, tzinfo=UTC))
    assert found.open(now=datetime(2026, 3, 29, 0, 30, tzinfo=UTC))
    assert not found.open(now=datetime(2026, 3, 29, 1, 30, tzinfo=UTC))


def test_a_status_may_not_bring_a_moment_without_a_zone_either() -> None:
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}},
    }
    old = created(binding).object

    causes = refused({**binding, "status": {"lastScheduledTime": NAIVE}}, old=old, subresource="status")
    reported = updated({**binding, "status": {"lastScheduledTime": ABROAD}}, old, subresource="status").object

    assert [cause.field for cause in causes] == ["status.lastScheduledTime"]
    assert reported.status.last_scheduled_time == GIVEN


def test_a_fence_written_by_hand_without_a_zone_confirms_nothing() -> None:
    text = f'{{"by":"ana","reason":"no power","madeAt":"{NAIVE}","expiresAt":"2999-01-01T00:00:00"}}'
    down = typed_cluster("member1", ready="False")

    assert fence_of(down.with_meta(annotations={FENCE_ANNOTATION: text})) is None


@pytest.mark.parametrize("kind", [one for one in KINDS if getattr(one.type, "fold", None) is None])
def test_every_kind_of_ours_refuses_a_moment_without_a_zone(kind: Any) -> None:
    """What is walked through is what the types say, so that a field added tomorrow is no exception."""
    doc = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": "one", "creationTimestamp": NAIVE},
    }

    assert "metadata.creationTimestamp" in {cause.field for cause in refused(doc)}

"""Latest changes on Situation: what was not an ordinary step, each once."""

from __future__ import annotations

import pytest
from django.db import connection

from apps.console.changes import READ, latest_changes
from apps.objects.store import store
from controlplane.engine.decision import Decision, Event
from controlplane.engine.state import Actor
from controlplane.kinds.policy import Placement
from tests.builders.objects import binding, cluster
from tests.builders.templates import deployment

BY = Actor("test")
pytestmark = pytest.mark.django_db(transaction=True)


def test_ordinary_steps_are_left_out_and_a_binding_does_not_repeat_its_workload() -> None:
    web, template = binding("web", Placement()), deployment("web")
    events = (
        Event(template, "EvictWorkloadFromClusterSucceed", "evicted from cluster member1"),
        Event(web, "EvictWorkloadFromClusterSucceed", "evicted from cluster member1"),
        Event(web, "EvictionHeld", "nowhere to go", warning=True),
        Event(web, "ScheduleBindingSucceed", "Binding has been scheduled successfully."),
        Event(template, "AggregateStatusSucceed", "updated"),
    )
    store().apply([(None, Decision(events=events))], by=BY)

    lines = {(line.reason, line.about.partition(" ")[0]) for line in latest_changes()}

    assert lines == {("EvictWorkloadFromClusterSucceed", "Deployment"), ("EvictionHeld", "ResourceBinding")}


def test_a_long_failover_leaves_room_for_what_happened_to_the_cluster() -> None:
    """Many Events have the same second. With these keys, a plan with a hash once put those of bindings first."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER SEQUENCE objects_event_id_seq RESTART WITH 1")
    store().apply([(None, Decision(events=(Event(cluster("member1"), "ClusterReadyChanged", "Ready=False"),)))], by=BY)
    for number in range(READ + 3):
        web, template = binding(f"web-{number}", Placement()), deployment(f"web-{number}")
        moved, healthy = f"web-{number} is evicted from cluster member1", f"web-{number} is healthy"
        events = (
            Event(template, "EvictWorkloadFromClusterSucceed", moved),
            Event(web, "EvictWorkloadFromClusterSucceed", moved),
            Event(web, "EvictionTaskCleared", healthy),
        )
        store().apply([(None, Decision(events=events))], by=BY)
    lines = latest_changes()

    assert {(line.reason, line.about.partition(" ")[0], line.more) for line in lines} == {
        ("EvictionTaskCleared", "ResourceBinding", "and others"),
        ("EvictWorkloadFromClusterSucceed", "Deployment", "and others"),
        ("ClusterReadyChanged", "Cluster", ""),
    }


def test_clusters_that_change_one_after_the_other_share_a_line() -> None:
    for name in ("member1", "member2"):
        store().apply([(None, Decision(events=(Event(cluster(name), "ClusterReadyChanged", name),)))], by=BY)

    assert [(line.reason, line.more) for line in latest_changes()] == [("ClusterReadyChanged", "and others")]

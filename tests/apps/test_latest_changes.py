"""Latest changes on Situation: what was not an ordinary step, each once."""

from __future__ import annotations

import pytest

from apps.console.changes import latest_changes
from apps.objects.store import store
from controlplane.engine.decision import Decision, Event
from controlplane.engine.state import Actor
from controlplane.kinds.policy import Placement
from tests.builders.objects import binding, deployment

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
    store().apply([(None, Decision(events=events))], by=Actor("test"))

    lines = {(line.reason, line.about.partition(" ")[0]) for line in latest_changes()}

    assert lines == {("EvictWorkloadFromClusterSucceed", "Deployment"), ("EvictionHeld", "ResourceBinding")}

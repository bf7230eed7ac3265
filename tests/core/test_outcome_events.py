"""The Events of the scheduler: when there is one, on which objects, and what it says."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.kinds.binding import SCHEDULED, Binding, TargetCluster
from controlplane.propagation.bindings import template_of
from controlplane.scheduling.outcome_events import deserves_event, refuge_replaced_events, success_events
from controlplane.scheduling.schedule import Placed
from tests.builders.objects import binding
from tests.builders.placements import duplicated

WEB = binding("web", duplicated(), on={"member1": 2}).with_status(conditions=(Condition(SCHEDULED, "True", "Success"),))


@pytest.mark.parametrize(
    ("new", "deserves"),
    [
        (WEB, False),
        (WEB.with_status(scheduler_observed_generation=9), False),
        (WEB.with_spec(clusters=(TargetCluster("member2", 2),)), True),
        (WEB.with_spec(clusters=(TargetCluster("member1", 3),)), True),
        (WEB.with_status(conditions=(Condition(SCHEDULED, "False", "NoClusterFit"),)), True),
    ],
    ids=["the same", "another status", "another cluster", "more replicas", "another condition"],
)
def test_a_decision_has_an_event_if_the_targets_or_the_condition_changed(new: Binding, deserves: bool) -> None:
    assert deserves_event(WEB, new) is deserves


def test_a_success_names_the_targets_on_the_binding_and_as_a_step_on_the_workload() -> None:
    on_binding, on_workload = success_events(WEB, Placed((TargetCluster("member1", 2), TargetCluster("member2")), ""))

    assert on_binding.message == "Binding has been scheduled successfully. Result: {member1:2, member2}"
    assert (on_workload.message, on_workload.reason) == (on_binding.message, on_binding.reason)
    assert (on_binding.about, on_workload.about) == (WEB, template_of(WEB))
    assert (on_binding.step, on_workload.step) == (False, True)


@pytest.mark.parametrize(("message", "count"), [("the eviction had reserved member3", 2), ("", 0)])
def test_a_replaced_refuge_is_reported_on_binding_and_workload(message: str, count: int) -> None:
    found = refuge_replaced_events(WEB, message)

    assert [(event.about, event.message) for event in found] == [(WEB, message), (template_of(WEB), message)][:count]

"""Events of ordinary steps: reported for a few objects, left out where many take the step at once."""

from __future__ import annotations

from controlplane.engine.unstorable import MAX_DECISIONS_WITH_STEPS
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story


def test_steps_of_a_few_objects_are_events_and_those_of_many_are_none() -> None:
    few, many = MAX_DECISIONS_WITH_STEPS, MAX_DECISIONS_WITH_STEPS + 1

    for count, reported in ((few, few), (many, 0)):
        story = Story(*MEMBERS, *(deployment(f"web-{number}") for number in range(count)))
        story.add(policy("all"))

        assert len(story.store.list("work.karmada.io/ResourceBinding")) == count
        assert len(story.events("ApplyPolicySucceed")) == reported
        assert len(story.events("GetReplicasSucceed")) == reported

"""A policy that names an object which is deleted later: its workloads go on [policy-matching]."""

from __future__ import annotations

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy, SchedulePriority
from controlplane.kinds.template import Template
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story

WEB = deployment()
HIGH = SchedulePriority("KubePriorityClass", "high")
ALL = policy("all", schedule_priority=HIGH)


def priority_class(value: int) -> Template:
    metadata = ObjectMeta(name="high", uid=f"uid-{value}", generation=1)
    return Template("scheduling.k8s.io/v1", "PriorityClass", metadata, content={"value": value})


def scaled(story: Story) -> None:
    """Scale the workload to 7 replicas, and edit its policy."""
    stored, edited = story.template(WEB), story.store.objects[ALL.ref]
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "replicas": 7}}))
    assert isinstance(edited, Policy)
    story.edit(edited.with_spec(propagate_deps=True))


def found(story: Story) -> Binding:
    binding = story.binding(WEB)
    assert binding is not None
    return binding


def test_a_workload_keeps_its_priority_and_follows_its_policy_although_the_priority_class_is_deleted() -> None:
    story = Story(*MEMBERS, priority_class(7), ALL, WEB)
    story.delete(priority_class(7))

    scaled(story)

    spec = found(story).spec
    assert (spec.replicas, spec.propagate_deps) == (7, True)
    assert spec.schedule_priority is not None
    assert spec.schedule_priority.priority == 7
    assert 'PriorityClass "high", which does not exist' in story.events("ApplyPolicyFailed")[0]


def test_a_priority_class_that_is_made_again_gives_its_new_value() -> None:
    story = Story(*MEMBERS, priority_class(7), ALL, WEB)
    story.delete(priority_class(7))
    scaled(story)

    story.add(priority_class(9))
    story.later(seconds=31)

    priority = found(story).spec.schedule_priority
    assert priority is not None
    assert priority.priority == 9


def test_a_workload_waits_if_an_override_policy_is_missing_as_well() -> None:
    story = Story(*MEMBERS, priority_class(7), ALL, WEB)
    story.edit(ALL.with_spec(dependent_overrides=("missing",)))
    story.delete(priority_class(7))

    scaled(story)

    assert found(story).spec.replicas == 3

"""A policy takes templates from another one, with the gate PropagationPolicyPreemption [policy-matching]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kinds.policy import ResourceSelector, SchedulePriority
from controlplane.propagation import matching
from controlplane.settings import GATES, Settings
from tests.builders.objects import policy
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS, Story


def test_preemption_takes_a_template_from_a_lower_priority_where_the_gate_is_on() -> None:
    web = deployment()
    story = Story(policy("old"), web, settings=Settings(feature_gates={**GATES, "PropagationPolicyPreemption": True}))

    story.add(policy("same", preemption="Always"))
    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "old"
    story.add(policy("better", priority=10, preemption="Always"))

    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "better"


def test_a_policy_that_waits_takes_nothing_from_the_one_it_preempts() -> None:
    web, named = deployment(), ResourceSelector("apps/v1", "Deployment", name="web")
    waiting = policy("next", named, priority=1, preemption="Always", dependent_overrides=("missing",))
    preempting = Settings(feature_gates={**GATES, "PropagationPolicyPreemption": True})

    story = Story(*MEMBERS, policy("all"), web, settings=preempting)
    story.add(waiting)

    binding = story.binding(web)
    assert binding is not None
    assert matching.claimant(binding) == matching.claimant(story.template(web)) == ("default", "all")


@pytest.mark.parametrize(
    "waiting",
    [{"dependent_overrides": ("missing",)}, {"schedule_priority": SchedulePriority("KubePriorityClass", "missing")}],
    ids=lambda spec: next(iter(spec)),
)
def test_a_policy_holds_until_the_one_that_preempts_it_can_be_applied(waiting: dict[str, Any]) -> None:
    web, all_, named = deployment(), policy("all"), ResourceSelector("apps/v1", "Deployment", name="web")
    preempting = Settings(feature_gates={**GATES, "PropagationPolicyPreemption": True})
    story = Story(*MEMBERS, all_, web, settings=preempting)
    story.add(policy("next", named, priority=1, preemption="Always", **waiting))

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "replicas": 7}}))
    story.edit(story.store.objects[all_.ref].with_spec(propagate_deps=True))

    binding = story.binding(web)
    assert binding is not None
    assert matching.claimant(binding) == ("default", "all")
    assert (binding.spec.replicas, binding.spec.propagate_deps) == (7, True)
    assert any("policy next" in message for message in story.events("ApplyPolicyFailed"))

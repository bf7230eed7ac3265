"""Requests that a quota has no room for: what of the change is made all the same, and what members get
[federated-quotas]."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from tests.builders.objects import policy
from tests.builders.placements import placement
from tests.builders.templates import deployment
from tests.core.propagation_story import MEMBERS
from tests.core.test_federated_quotas import QuotaStory, asking, quota


def with_replicas(template: Template, replicas: int) -> Template:
    return template.with_content({**template.content, "spec": {**template.spec, "replicas": replicas}})


def requested(one: Binding | None) -> tuple[int, Any]:
    """Return how many replicas a binding asks for, and what each requests."""
    assert one is not None
    requirements = one.spec.replica_requirements
    return one.spec.replicas, None if requirements is None else requirements.resource_request["cpu"]


def test_fewer_replicas_make_room_for_the_higher_requests_of_the_same_edit() -> None:
    web = deployment(replicas=4)
    story = QuotaStory(*MEMBERS, quota(cpu="4"), policy("all"), web)
    story.place(web, member1=4)

    story.edit(with_replicas(asking(story.template(web), "2"), 1))
    assert requested(story.binding(web)) == (1, "1")
    story.place(web, member1=1)
    story.later(seconds=31)

    assert requested(story.binding(web)) == (1, "2")


def test_a_policy_lets_a_workload_go_elsewhere_although_its_new_requests_are_refused() -> None:
    web, everywhere = deployment(replicas=2), policy("all")
    story = QuotaStory(*MEMBERS, quota(cpu="3"), everywhere, web)
    story.place(web, member1=2)
    story.edit(asking(story.template(web), "2"))

    live: Any = story.store.objects[everywhere.ref]
    story.edit(live.with_spec(placement=placement("member3")))

    kept = story.binding(web)
    assert requested(kept) == (2, "1")
    assert kept is not None
    assert kept.spec.placement is not None
    assert kept.spec.placement.cluster_affinity == placement("member3").cluster_affinity
    assert story.events("ApplyPolicyFailed")
    story.edit(story.template(web).with_meta(resource_version="99"))
    story.later(seconds=31)
    assert story.binding(web) == kept, "what is refused again is written once"

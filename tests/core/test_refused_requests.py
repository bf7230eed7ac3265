"""Requests that a quota has no room for: what of the change is made all the same, and what members get
[federated-quotas]."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.names import (
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
    TEMPLATE_GENERATION_ANNOTATION,
)
from controlplane.controllers.reads.refused_templates import refused_templates
from controlplane.interpret import INTERPRETERS, InterpretationFailed, interpreter_for
from controlplane.interpret.customized import Script, Unanswered
from controlplane.interpret.interpreter import Demand
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Placement
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import bindings, refused_requests
from controlplane.propagation.lazy_activation import LAZY, LAZY_ANNOTATION, digest
from controlplane.settings import Settings
from tests.builders.objects import binding, cluster, policy
from tests.builders.placements import placement
from tests.builders.templates import config_map, deployment, template
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS
from tests.core.test_federated_quotas import ON, QuotaStory, asking, quota
from tests.core.test_overrides import label, selecting


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


def cpu_of(work: Work) -> str:
    """Return what the containers of a copy request."""
    found: str = work.manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


def copies(story: QuotaStory) -> dict[str, tuple[int, str]]:
    """Return by cluster the replicas of the copy and what each requests."""
    return {name: (work.manifest["spec"]["replicas"], cpu_of(work)) for name, work in story.works().items()}


@pytest.mark.parametrize("works_first", [False, True], ids=["", "works-decide-first"])
def test_refused_requests_reach_no_member_until_there_is_room(*, works_first: bool) -> None:
    web = deployment(replicas=3)
    story = QuotaStory(*MEMBERS, quota(cpu="4"), policy("all", placement=DIVIDED_PLACEMENT), web)
    if works_first:
        story.controllers = tuple(sorted(story.controllers, key=lambda one: one.name != "works"))  # type: ignore[assignment]
    story.place(web, member1=3)
    generation = made_from(story.works()["member1"])

    story.edit(asking(story.template(web), "2").with_meta(generation=2, labels={"team": "shop"}))
    assert copies(story) == {"member1": (3, "1")}
    assert made_from(story.works()["member1"]) == generation, "its status is not that of the edited template"
    assert story.works()["member1"].manifest["metadata"]["labels"]["team"] == "shop"

    story.place(web, member1=1, member2=2)
    assert copies(story) == {"member1": (1, "1"), "member2": (2, "1")}
    assert made_from(story.works()["member2"]) == generation

    story.change(overall={"cpu": "6"})
    story.later(seconds=31)
    assert copies(story) == {"member1": (1, "2"), "member2": (2, "2")}
    assert made_from(story.works()["member2"]) == "2"


@pytest.mark.parametrize("gone", [False, True], ids=["raised", "deleted"])
def test_refused_requests_reach_members_as_soon_as_a_user_allows_more(*, gone: bool) -> None:
    web, other = deployment(replicas=2), deployment("other", replicas=1)
    story = QuotaStory(*MEMBERS, quota(cpu="3"), policy("all"), web, other, config_map())
    story.place(web, member1=2)
    story.edit(asking(story.template(web), "2"))
    assert requested(story.binding(web)) == (2, "1")
    assert refused_templates(story.store, quota().ref, after="", limit=9) == ([web.ref], None)
    assert refused_templates(story.store, quota().ref, after="", limit=1)[1] is not None

    if gone:
        story.delete(quota())
    else:
        story.change(overall={"cpu": "4"})

    assert requested(story.binding(web)) == (2, "2")
    assert refused_templates(story.store, quota().ref, after="", limit=9) == ([], None)


def test_a_new_copy_that_override_policies_change_is_made_of_the_template_as_it_is() -> None:
    """The content of another copy is changed for the cluster of that copy. Its workload does not wait."""
    web = deployment(replicas=3)
    story = QuotaStory(
        *MEMBERS,
        quota(cpu="4"),
        policy("all", placement=DIVIDED_PLACEMENT),
        selecting(label("one", "first"), name="web"),
        web,
    )
    story.place(web, member1=3)

    story.edit(asking(story.template(web), "2"))
    story.place(web, member1=1, member2=2)

    assert copies(story) == {"member1": (1, "1"), "member2": (2, "2")}
    assert {work.manifest["metadata"]["labels"]["by"] for work in story.works().values()} == {"first"}


def test_a_new_copy_gets_the_content_of_a_copy_that_is_wanted_and_not_of_an_older_one_that_was_left_behind() -> None:
    """A cluster that is lost keeps its copy as it was. The template was edited since, and then its requests."""
    web = deployment(replicas=3)
    story = QuotaStory(*MEMBERS, quota(cpu="6"), policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=1, member2=2)
    lost: Any = story.store.objects[MEMBERS[0].ref]
    story.edit(lost.with_status(conditions=cluster("member1", ready="Unknown").status.conditions))
    story.place(web, member2=3)
    live = story.template(web)
    story.edit(live.with_content({**live.content, "spec": {**live.spec, "minReadySeconds": 7}}))
    assert [work.manifest["spec"].get("minReadySeconds") for _, work in sorted(story.works().items())] == [None, 7]

    story.edit(asking(story.template(web), "5"))
    story.place(web, member2=2, member3=1)

    assert story.works()["member3"].manifest["spec"]["minReadySeconds"] == 7
    assert cpu_of(story.works()["member3"]) == "1"


def made_from(work: Work) -> str:
    """Return the generation of the template that a copy was made of."""
    found: str = work.manifest["metadata"]["annotations"][TEMPLATE_GENERATION_ANNOTATION]
    return found


@pytest.mark.parametrize(
    ("limits", "settings"),
    [({"cpu": "3"}, Settings()), ({"memory": "1Gi"}, ON), ({"pods": "1"}, ON)],
    ids=["not enforced", "another resource", "not counted"],
)
def test_requests_that_no_quota_limits_reach_members_at_once(limits: dict[str, str], settings: Settings) -> None:
    web = deployment(replicas=2)
    story = QuotaStory(*MEMBERS, quota(**limits), policy("all"), web, settings=settings)
    story.place(web, member1=2)

    story.edit(asking(story.template(web), "2"))

    assert copies(story) == {"member1": (2, "2")}


def test_the_requests_of_a_template_count_also_after_its_policy_was_deleted() -> None:
    """Its copies follow the template, so a user who may delete a policy would exceed every quota."""
    web, all_ = deployment(replicas=2), policy("all")
    story = QuotaStory(*MEMBERS, quota(cpu="3"), all_, web)
    story.place(web, member1=2)
    story.delete(all_)

    story.edit(asking(story.template(web), "2"))
    assert (requested(story.binding(web)), copies(story)) == ((2, "1"), {"member1": (2, "1")})
    assert story.events("ApplyPolicyFailed")

    story.change(overall={"cpu": "4"})
    story.later(seconds=31)
    assert (requested(story.binding(web)), copies(story)) == ((2, "2"), {"member1": (2, "2")})
    assert story.again() == 0


def test_a_binding_that_a_user_wrote_keeps_the_requests_that_it_has() -> None:
    web, all_ = deployment(replicas=2), policy("all")
    story = QuotaStory(*MEMBERS, quota(cpu="3"), all_, web)
    story.place(web, member1=2)
    story.delete(all_)
    found = story.binding(web)
    assert found is not None
    story.edit(found.with_meta(owner_references=()))

    story.edit(asking(story.template(web), "2"))

    assert (requested(story.binding(web)), copies(story)) == ((2, "1"), {"member1": (2, "2")})


def flink(cpu: int, **metadata: Any) -> Template:
    manager = {"jobManager": {"resource": {"cpu": cpu}}, "taskManager": {"resource": {"cpu": 1}}}
    return template(
        "FlinkDeployment", "job", version="flink.apache.org/v1beta1", metadata=metadata, spec={**manager, "job": {}}
    )


@pytest.mark.parametrize(("cpu", "refused"), [(1, False), (2, True)])
def test_the_requests_of_all_components_count(cpu: int, *, refused: bool) -> None:
    claim = {PROPAGATION_POLICY_NAME_ANNOTATION: "all", PROPAGATION_POLICY_NAMESPACE_ANNOTATION: "default"}
    parts = bindings.components(flink(1))
    assert parts
    one = binding("job", Placement(), on={"member1": 0}, replicas=0).with_spec(components=parts)

    assert refused_requests.are_refused(one, flink(cpu, annotations=claim), [quota(cpu="9")]) is refused
    assert not refused_requests.are_refused(one, flink(cpu), [quota(cpu="9")]), "no policy made it"


@pytest.mark.parametrize("back", [False, True], ids=["gate-on", "gate-off"])
def test_a_workload_whose_components_a_quota_refuses_keeps_its_replicas(*, back: bool) -> None:
    """A gate makes components of replicas. They may request more, for example because a manager counts as well."""
    parts = bindings.components(flink(9))
    assert parts
    by_replicas = binding("job", Placement(), on={"member1": 2}, replicas=2, cpu="1")
    by_parts = by_replicas.with_spec(replicas=0, replica_requirements=None, components=parts, propagate_deps=True)
    old, new = (by_parts, by_replicas) if back else (by_replicas, by_parts)

    kept = bindings.with_requests_of(new, old)

    assert (kept.spec.replicas, kept.spec.components) == (old.spec.replicas, old.spec.components)
    assert kept.spec.replica_requirements == old.spec.replica_requirements
    assert kept.spec.propagate_deps is new.spec.propagate_deps


FAILED = InterpretationFailed(Script("broken", "InterpretReplica", "…"), "it is broken")


@pytest.mark.parametrize("error", [FAILED, Unanswered(())], ids=["failed", "not-answered"])
def test_a_script_that_fails_holds_back_no_copy_and_one_that_has_not_answered_is_waited_for(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = {PROPAGATION_POLICY_NAME_ANNOTATION: "all", PROPAGATION_POLICY_NAMESPACE_ANNOTATION: "default"}
    web, limits = deployment(annotations=claim), [quota(cpu="9")]
    one = binding("web", Placement(), on={"member1": 3}, replicas=3, cpu="1m")
    assert refused_requests.are_refused(one, web, limits)

    def asked(doc: Any) -> Demand:
        raise error

    changed = replace(interpreter_for("apps/v1", "Deployment"), replicas=asked)
    monkeypatch.setitem(INTERPRETERS._of, ("apps/v1", "Deployment"), changed)

    with pytest.raises(Unanswered) if error is not FAILED else nullcontext():
        assert not refused_requests.are_refused(one, web, limits)
    assert not refused_requests.are_refused(one, web, []), "no script is asked without a quota"
    assert not refused_requests.are_refused(one.with_spec(placement=None), web, limits)


def test_requests_under_a_lazy_policy_are_tried_again_as_well() -> None:
    web = deployment(replicas=2)
    story = QuotaStory(*MEMBERS, quota(cpu="3"), policy("all", activation_preference=LAZY), web)
    story.place(web, member1=2)
    story.edit(asking(story.template(web), "2"))
    assert (requested(story.binding(web)), copies(story)) == ((2, "1"), {"member1": (2, "1")})

    story.later(seconds=31)
    story.change(overall={"cpu": "4"})
    story.later(seconds=31)

    assert (requested(story.binding(web)), copies(story)) == ((2, "2"), {"member1": (2, "2")})
    seen = story.template(web).metadata.annotations
    assert seen[LAZY_ANNOTATION] == digest(story.template(web)), "the edit is applied"
    assert story.again() == 0

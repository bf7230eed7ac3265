"""From a template to its copies and away again, and what members say on the way back [work-rendering]
[status-aggregation]."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import condition
from controlplane.apimachinery.names import NAMESPACE_CONTENT_FINALIZER, SKIP_AUTO_PROPAGATION_LABEL
from controlplane.kinds.template import Template
from tests.builders.objects import cluster, policy
from tests.builders.templates import deployment, namespace
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story


def test_deleting_the_template_removes_binding_and_copies_in_order() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.delete(web)
    binding = story.binding(web)
    assert binding is not None
    assert binding.metadata.deletion_timestamp is not None
    assert story.works()["member1"].metadata.deletion_timestamp is not None

    story.remove_from_member("member1")
    assert story.binding(web) is None
    assert story.works() == {}


def test_a_template_recreated_while_its_binding_goes_gets_a_binding_of_its_own() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    story.delete(web)

    story.add(deployment(uid="uid-second"))
    story.remove_from_member("member1")

    binding = story.binding(web)
    assert binding is not None
    assert binding.metadata.deletion_timestamp is None
    assert binding.spec.resource.uid == "uid-second"


# Status


def test_what_members_say_is_added_up_on_binding_and_template() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=2, member2=1)

    story.report("member1", readyReplicas=2, replicas=2)
    binding = story.binding(web)
    assert binding is not None
    applied = condition(binding.status.conditions, "FullyApplied")
    assert applied is not None
    assert applied.status == "False"

    story.report("member2", readyReplicas=1, replicas=1)
    binding = story.binding(web)
    assert binding is not None
    applied = condition(binding.status.conditions, "FullyApplied")
    assert applied is not None
    assert applied.status == "True"
    assert [(one.cluster_name, one.health) for one in binding.status.aggregated_status] == [
        ("member1", "Healthy"),
        ("member2", "Healthy"),
    ]
    assert story.template(web).status["readyReplicas"] == 3


def test_a_template_without_policy_has_no_status_of_copies_once_its_binding_was_deleted() -> None:
    web, online = deployment(), policy("all")
    story = Story(*MEMBERS, online, web)
    story.place(web, member1=3)
    story.report("member1", readyReplicas=3, replicas=3)
    story.delete(online)
    assert story.template(web).status["readyReplicas"] == 3

    binding = story.binding(web)
    assert binding is not None
    story.delete(binding)
    story.remove_from_member("member1")

    assert story.binding(web) is None
    assert "readyReplicas" not in story.template(web).status


def test_a_template_that_is_replaced_at_once_has_the_status_of_its_copies() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    story.report("member1", readyReplicas=3, replicas=3)
    fresh = replace(web, metadata=replace(web.metadata, uid="uid-fresh"))

    story.replace(web, fresh)

    assert story.template(web).status["readyReplicas"] == 3
    assert story.again() == 0


def test_nothing_is_written_before_a_member_said_anything() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    binding = story.binding(web)

    assert binding is not None
    assert binding.status.conditions == ()
    assert binding.status.aggregated_status == ()


def test_a_copy_that_is_on_its_way_out_is_not_counted() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3, member2=3)
    story.report("member1")
    story.report("member2")

    story.place(web, member2=3)

    binding = story.binding(web)
    assert binding is not None
    assert [one.cluster_name for one in binding.status.aggregated_status] == ["member2"]


# Namespaces and garbage


def test_a_namespace_reaches_every_cluster_also_one_that_joins_later() -> None:
    story = Story(cluster("member1"), namespace("team"))

    story.add(cluster("member2"))

    assert set(story.works()) == {"member1", "member2"}
    assert story.works()["member1"].manifest["metadata"]["name"] == "team"


@pytest.mark.parametrize(
    "kept",
    [namespace("default"), namespace("kube-public"), namespace("own", **{SKIP_AUTO_PROPAGATION_LABEL: "true"})],
    ids=["default", "skipped", "labelled"],
)
def test_some_namespaces_stay_here(kept: Template) -> None:
    story = Story(cluster("member1"), kept)

    assert story.works() == {}


def test_a_namespace_leaves_the_members_only_after_what_it_holds_here() -> None:
    team = namespace("team").with_meta(finalizers=(NAMESPACE_CONTENT_FINALIZER,))
    story = Story(cluster("member1"), team)

    story.delete(team)
    story.add(cluster("member2"))
    assert story.template(team).metadata.deletion_timestamp is not None
    assert story.works().keys() == {"member1"}
    assert story.works()["member1"].metadata.deletion_timestamp is None

    story.edit(story.template(team).with_meta(finalizers=()))
    assert story.works()["member1"].metadata.deletion_timestamp is not None


def test_a_namespace_that_is_labelled_later_takes_nothing_away_and_a_deleted_one_does() -> None:
    team = namespace("team")
    story = Story(cluster("member1"), team)

    story.edit(story.template(team).with_meta(labels={SKIP_AUTO_PROPAGATION_LABEL: "true"}))
    assert story.works()["member1"].metadata.deletion_timestamp is None
    story.delete(team)

    assert story.works()["member1"].metadata.deletion_timestamp is not None

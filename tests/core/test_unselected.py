"""A template that no policy selects shows that where it is expected to run, and what a deleted policy waits for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from controlplane import kinds
from controlplane.apimachinery.meta import Object, OwnerReference
from controlplane.kind import KINDS
from controlplane.kinds.event import Event
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.wire.table import columns_of
from tests.builders.objects import START, policy
from tests.builders.templates import config_map, deployment
from tests.core.propagation_story import MEMBERS, Story

CONFIG_MAPS = ResourceSelector("v1", "ConfigMap")
ALL = policy("all", ResourceSelector("apps/v1", "Deployment"), CONFIG_MAPS)


def reported(story: Story, about: Object) -> list[tuple[str, str]]:
    found = [one for one in story.store.list(kinds.EVENT) if isinstance(one, Event) and "Succeed" not in one.reason]
    name = about.metadata.name
    return [(one.type, one.message) for one in found if one.involved_object.name == name and "Polic" in one.reason]


def test_a_workload_that_never_had_a_policy_says_so_after_ten_seconds_and_a_config_map_never() -> None:
    web, data = deployment(), config_map()
    story = Story(web, data)

    story.later(seconds=9)
    assert reported(story, web) == []
    story.later(seconds=1)

    ((kind, message),) = reported(story, web)
    assert (kind, message) == (
        "Normal",
        "no PropagationPolicy or ClusterPropagationPolicy selects it, so it runs on no cluster",
    )
    story.later(hours=1)
    assert reported(story, data) == []


def test_a_workload_that_another_object_owns_is_not_expected_to_have_a_policy() -> None:
    owner = OwnerReference("v1", "Thing", "x", "x", controller=True)
    web = deployment(owner_references=(owner,))
    story = Story(web)

    story.later(seconds=60)

    assert reported(story, web) == []


@pytest.mark.parametrize("one", [deployment(), config_map()], ids=["workload", "config map"])
def test_a_template_that_loses_its_policy_gets_one_warning(one: Template) -> None:
    story = Story(*MEMBERS, ALL, one)
    story.place(one, member1=1)

    story.delete(ALL)
    story.later(seconds=60)

    ((kind, message),) = reported(story, one)
    assert kind == "Warning"
    assert message.startswith("no policy selects it any more: its copies stay as they are until one does")
    assert "PropagationPolicy all is being deleted" in message


def test_a_lazy_policy_takes_a_template_over_once_the_binding_that_goes_is_gone() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    going = story.binding(web)
    assert going is not None
    story.delete(going)
    story.add(policy("lazy", activation_preference="Lazy"))

    story.delete(policy("all"))
    story.later(seconds=5)
    assert policy("all").ref not in story.store.objects
    story.remove_from_member("member1")
    story.later(seconds=10)

    binding = story.binding(web)
    assert binding is not None
    assert "lazy" in binding.metadata.annotations.values()


def test_a_deleted_policy_says_what_it_waits_for() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    binding = story.binding(web)
    assert binding is not None
    other = replace(binding.spec.resource, api_version="example.org/v1")  # nothing is decided about web meanwhile
    story.edit(binding.with_spec(resource=other))

    story.delete(policy("all"))
    story.later(seconds=9)
    assert story.events("PolicyReleaseWaiting") == []
    story.later(seconds=2)

    (message,) = story.events("PolicyReleaseWaiting")
    assert "apps/Deployment:default/web" in message


def test_the_name_of_another_kinds_binding_is_free_once_that_is_gone() -> None:
    mine = deployment("web")
    other = replace(mine, api_version="example.org/v1")
    story = Story(*MEMBERS, policy("all"), mine)
    story.place(mine, member1=1)
    binding = story.binding(mine)
    assert binding is not None
    story.edit(binding.with_spec(resource=replace(binding.spec.resource, api_version=other.api_version)))
    assert story.events("ApplyPolicyFailed")

    story.delete(binding)
    story.remove_from_member("member1")
    story.later(seconds=31)

    fresh = story.binding(mine)
    assert fresh is not None
    assert fresh.spec.resource.api_version == "apps/v1"


@pytest.mark.parametrize("key", ["apps/Deployment", "ConfigMap", "Pod", "Service", "rbac.authorization.k8s.io/Role"])
def test_the_policy_is_the_last_wide_column_of_a_template(key: str) -> None:
    *others, last = columns_of(KINDS[key].resource)
    claimed = {"metadata": {"annotations": {"propagationpolicy.karmada.io/name": "web"}}}
    wide = {"metadata": {"annotations": {"clusterpropagationpolicy.karmada.io/name": "all"}}}

    assert (last.name, last.priority) == ("Policy", 1)
    assert [last.cell(one, START) for one in (claimed, wide, {"metadata": {}})] == ["pp/web", "cpp/all", "<none>"]
    assert "Policy" not in [one.name for one in others]


@pytest.mark.parametrize("key", ["Namespace", "Node", "coordination.k8s.io/Lease", "Event"])
def test_what_no_policy_ever_propagates_has_no_such_column(key: str) -> None:
    assert "Policy" not in [one.name for one in columns_of(KINDS[key].resource)]

"""Kinds of other projects often have no strict schema: an object with a value of another type costs only itself
[resource-interpreter]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.dependencies import Dependencies
from controlplane.controllers.execution import Execution
from controlplane.controllers.work_status import health
from controlplane.interpret import INTERPRETERS, Unanswered
from controlplane.interpret.customized import Answer
from controlplane.kind import KINDS
from controlplane.kinds import WORK
from controlplane.kinds.binding import HEALTHY, TargetCluster
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.kinds.work import APPLIED_FAILED
from controlplane.propagation import attached_bindings, bindings
from controlplane.propagation.definitions import kinds_of
from tests.builders.objects import applied, binding, cluster, policy, work
from tests.builders.placements import placement
from tests.builders.templates import config_map, deployment, template
from tests.core.propagation_story import MEMBERS, Story
from tests.core.test_customized import customization
from tests.core.test_dependencies import needing, placed
from tests.core.test_federated_quotas import QuotaStory, asking, quota
from tests.core.test_refused_requests import requested

KRUISE = "apps.kruise.io/v1alpha1"
EVERYTHING = (ResourceSelector("apps/v1", "Deployment"), ResourceSelector(KRUISE, "CloneSet"))
CONTAINER = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PODS = {"spec": {"containers": [CONTAINER]}}


@pytest.mark.parametrize("replicas", ["inf", "1e400", "many", [1]])
def test_a_copy_whose_replicas_are_no_number_keeps_no_other_from_being_applied(replicas: Any) -> None:
    """An override policy may write anything there. The member refuses it, and it is tried again with others."""
    owner = binding("odd", placement("member1"), on={"member1": 2})
    manifest = {"apiVersion": KRUISE, "kind": "CloneSet", "metadata": {"name": "odd"}, "spec": {"replicas": replicas}}
    manifest["spec"]["template"] = PODS  # type: ignore[index]  # it is a dict
    odd = work("odd", of=owner, manifest=manifest, conditions=[applied("False", APPLIED_FAILED)])
    story = Story(cluster("member1"), owner, odd, work("web"))

    found = Execution().load(story.store, [odd.ref, work("web").ref])

    assert all(one is not None and one.keeps == 0 for one in found)


@pytest.fixture
def clone_sets() -> Iterator[None]:
    """The kind CloneSet, brought by a definition whose schema does not look into pod templates."""
    names = {"kind": "CloneSet", "plural": "clonesets"}
    versions = [{"name": "v1alpha1", "served": True, "storage": True}]
    spec = {"group": "apps.kruise.io", "scope": "Namespaced", "names": names, "versions": versions}
    metadata = ObjectMeta(name="clonesets.apps.kruise.io", uid="uid-clonesets")
    definition = Template("apiextensions.k8s.io/v1", "CustomResourceDefinition", metadata, {"spec": spec})
    KINDS.set_custom(kinds_of([definition]))
    yield
    KINDS.set_custom(())


def clone_set(**spec: Any) -> Template:
    return template("CloneSet", "odd", version=KRUISE, spec={"replicas": 2, "template": PODS, **spec})


def with_spec(story: Story, one: Template, **spec: Any) -> Template:
    stored = story.template(one)
    return stored.with_content({**stored.content, "spec": {**stored.spec, **spec}})


LOTS = {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "lots"}}}]}}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"template": {"spec": {"nodeSelector": {"gpu": True}}}}, "nodeSelector"),
        ({"template": {"spec": {"tolerations": [1]}}}, "not iterable"),
        ({"template": {"spec": {"affinity": {"nodeAffinity": {REQUIRED: ["zone"]}}}}}, "hardNodeAffinity"),
        ({"template": {"spec": "nginx"}}, "has no attribute"),
        ({"template": LOTS}, "is not a quantity"),
        ({"replicas": -1}, "-1 is not between 0 and"),
        ({"replicas": "inf"}, "infinity"),
    ],
)
def test_an_object_that_cannot_be_interpreted_gets_an_event_and_no_binding(
    clone_sets: None, spec: dict[str, Any], why: str
) -> None:
    """A binding with such a value could not be read again."""
    odd = clone_set(**spec)

    story = Story(*MEMBERS, policy("all", *EVERYTHING), odd)

    assert story.binding(odd) is None
    (event,) = story.events("GetReplicasFailed")
    assert why in event
    story.edit(with_spec(story, odd, replicas=2, template=PODS))
    assert requested(story.binding(odd)) == (2, "1")


def test_it_keeps_no_other_workload_from_what_it_needs(clone_sets: None) -> None:
    web, settings, odd = needing(), config_map(), clone_set()
    story = Story(*MEMBERS, policy("all", *EVERYTHING, propagate_deps=True), web, settings, odd)
    story.place(web, member1=3)
    story.place(odd, member1=2)

    edited = with_spec(story, odd, template={"spec": "nginx"})
    live = story.binding(web)
    assert live is not None
    story.store.put(edited, story.template(odd))
    story.store.put(live.with_spec(clusters=(TargetCluster("member2", 3),)), live)
    story.settle()

    assert placed(story, settings) == {"web-deployment": {"member2"}}
    assert story.events("GetDependenciesFailed")


def test_requests_that_are_no_quantities_keep_no_other_from_a_quota_that_is_raised(clone_sets: None) -> None:
    web, odd = deployment(replicas=2), clone_set()
    story = QuotaStory(*MEMBERS, quota(cpu="5"), policy("all", *EVERYTHING), web, odd)
    story.place(web, member1=2)
    story.place(odd, member1=2)
    story.edit(asking(story.template(web), "3"))
    story.edit(with_spec(story, odd, template=LOTS))
    assert requested(story.binding(web)) == (2, "1")

    story.change(overall={"cpu": "8"})

    assert requested(story.binding(web)) == (2, "3")
    story.place(odd, member2=2)
    copies = [one for one in story.store.list(WORK) if one.manifest["kind"] == "CloneSet"]
    assert {one.cluster for one in copies if one.metadata.deletion_timestamp is None} == {"member2"}


def test_a_script_that_returns_no_selector_keeps_no_other_workload_from_what_it_needs() -> None:
    web, other = deployment(), deployment("other")
    story = Story(*MEMBERS, policy("all", *EVERYTHING, propagate_deps=True), web, other)
    INTERPRETERS.set_rules([customization("c", dependency_interpretation="…")])
    try:
        for one, tier in ((web, "1"), (other, 1)):
            with pytest.raises(Unanswered) as unanswered:
                attached_bindings.needed(story.template(one))
            found = {"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"tier": tier}}}
            INTERPRETERS.learn(unanswered.value.questions[0], Answer(([found],)))

        refs = [bindings.binding_ref(one.ref) for one in (web, other)]
        good, bad = Dependencies().load(story.store, refs)
    finally:
        INTERPRETERS.set_rules([])

    assert good is not None
    assert [need.kind for need in good.needs] == ["ConfigMap"]
    assert bad is not None
    assert "labelSelector" in str(bad.error)


@pytest.mark.parametrize(
    ("api_version", "kind", "content"),
    [
        ("flink.apache.org/v1beta1", "FlinkDeployment", {"status": "stable"}),
        ("apps/v1", "Deployment", {"spec": "nginx", "status": {"observedGeneration": 1}}),
        (KRUISE, "SidecarSet", {"status": {"matchedPods": "inf"}}),
    ],
)
def test_a_copy_whose_state_cannot_be_read_is_not_healthy_any_more(
    api_version: str, kind: str, content: dict[str, Any]
) -> None:
    """It would have kept the health that it had before, for ever."""
    held = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "odd", "generation": 1}, **content}

    assert health(held) != HEALTHY

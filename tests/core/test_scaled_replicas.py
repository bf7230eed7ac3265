"""Workloads that autoscalers of members scale: who gets the label, and when the replicas here follow
[scaled-workloads]."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.names import RETAIN_REPLICAS_LABEL, SCALED_BY_ANNOTATION
from controlplane.clusters.questions import Ensure, Target
from controlplane.controllers.deployment_replicas_syncer import DeploymentReplicasSyncer
from controlplane.controllers.hpa_scale_target_marker import HpaScaleTargetMarker
from controlplane.engine import run
from controlplane.eviction.graceful import ClusterState, assess_tasks
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.policy import GRACEFULLY, Placement, ResourceSelector
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.objects import START, policy
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story

EVERYTHING = (
    ResourceSelector("apps/v1", "Deployment"),
    ResourceSelector("autoscaling/v2", "HorizontalPodAutoscaler"),
)


def autoscaler(target: str = "web", name: str = "scales") -> Template:
    return Template.fold(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "generation": 1,
                "creationTimestamp": START,
            },
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
                "minReplicas": 2,
                "maxReplicas": 9,
            },
        }
    )


class ScalingStory(Story):
    """A story with the two controllers of scaled workloads."""

    def __init__(self, *objects: Any, placement: Placement = DIVIDED_PLACEMENT) -> None:
        super().__init__()
        self.controllers = (HpaScaleTargetMarker(), DeploymentReplicasSyncer(), *self.controllers)  # type: ignore[assignment]
        self.store = type(self.store)(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)
        self.add(*MEMBERS, policy("all", *EVERYTHING, placement=placement), *objects)

    def retains(self, name: str = "web") -> bool:
        return RETAIN_REPLICAS_LABEL in self.template(deployment(name)).metadata.labels

    def scheduled(self, **replicas: int) -> None:
        """Place web as the scheduler does, and report it."""
        self.place(deployment(), **replicas)
        found = self.binding(deployment())
        assert found is not None
        self.edit(found.with_status(scheduler_observed_generation=found.metadata.generation))

    def runs(self, **replicas: int) -> None:
        """Let members report how many replicas they run."""
        for name, count in replicas.items():
            work = self.works()[name].metadata
            self._report_web(work.namespace, count)

    def _report_web(self, space: str, count: int) -> None:
        from controlplane.apimachinery.meta import Condition
        from controlplane.kinds.work import ManifestStatus, ResourceIdentifier, Work

        (work,) = (
            one
            for one in self.store.objects.values()
            if isinstance(one, Work) and one.metadata.namespace == space and one.manifest["kind"] == "Deployment"
        )
        seen = ManifestStatus(
            ResourceIdentifier(group="apps", version="v1", kind="Deployment", name="web", namespace="default"),
            {"replicas": count, "readyReplicas": count, "updatedReplicas": count, "availableReplicas": count},
            "Healthy",
        )
        self.edit(work.with_status(conditions=(Condition("Applied", "True", "R"),), manifest_statuses=(seen,)))

    def wanted(self) -> Any:
        return self.template(deployment()).spec["replicas"]


def test_a_workload_that_is_replaced_by_a_manifest_without_the_label_gets_it_again() -> None:
    story = ScalingStory(deployment(), autoscaler())
    stored = story.template(deployment())
    assert story.retains()

    story.edit(stored.with_meta(labels={"app": "web"}, annotations={}))

    assert story.retains()
    assert story.again() == 0


@pytest.mark.parametrize("first", ["workload", "autoscaler"])
def test_the_workload_of_a_propagated_autoscaler_gets_the_label_whichever_comes_first(first: str) -> None:
    web, scales = deployment(), autoscaler()
    story = ScalingStory(*((web, scales) if first == "workload" else (scales, web)))

    assert story.retains()
    assert story.template(web).metadata.annotations[SCALED_BY_ANNOTATION] == "scales"

    story.delete(scales)
    assert not story.retains()
    assert SCALED_BY_ANNOTATION not in story.template(web).metadata.annotations
    assert story.again() == 0


def test_the_label_moves_with_the_reference_of_the_autoscaler() -> None:
    story = ScalingStory(deployment("web"), deployment("api"), autoscaler("web"))

    old = story.template(autoscaler())
    target = {**old.spec, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"}}
    story.edit(old.with_content({**old.content, "spec": target}))

    assert (story.retains("web"), story.retains("api")) == (False, True)


def test_an_autoscaler_that_no_policy_propagates_marks_nothing_and_the_label_of_a_user_stays() -> None:
    web = deployment(labels={RETAIN_REPLICAS_LABEL: "true"})
    story = ScalingStory(web)
    story.delete(story.store.objects[policy("all").ref])
    story.add(deployment("api"), autoscaler("api"), autoscaler("web", name="other"))

    assert (story.retains("web"), story.retains("api")) == (True, False)

    story.delete(autoscaler("web", name="other"))
    assert story.retains("web")


def test_replicas_follow_what_autoscalers_made_of_them_on_the_members() -> None:
    story = ScalingStory(deployment(replicas=2), autoscaler())
    story.scheduled(member1=1, member2=1)
    story.runs(member1=1, member2=1)
    assert story.wanted() == 2

    story.runs(member1=4)

    assert story.wanted() == 5
    assert story.template(deployment()).metadata.generation == 2
    found = story.binding(deployment())
    assert found is not None
    assert found.spec.replicas == 5
    assert story.again() == 0


def test_replicas_wait_until_every_member_has_reported_and_the_scheduler_has_seen_the_binding() -> None:
    story = ScalingStory(deployment(replicas=2), autoscaler())
    story.place(deployment(), member1=1, member2=1)  # the scheduler has not confirmed it
    story.runs(member1=4, member2=1)
    assert story.wanted() == 2

    story.scheduled(member1=1, member2=1)
    assert story.wanted() == 5

    template = story.template(deployment())
    story.edit(template.with_content({**template.content, "spec": {**template.spec, "replicas": 7}}))  # by a user
    assert story.wanted() == 7  # the binding changed and is not scheduled yet


def test_replicas_of_a_duplicated_or_an_unmarked_deployment_stay() -> None:
    duplicated = ScalingStory(deployment(replicas=2), autoscaler(), placement=Placement())
    unmarked = ScalingStory(deployment(replicas=2))
    for story in (duplicated, unmarked):
        story.scheduled(member1=2)
        story.runs(member1=4)
        assert story.wanted() == 2


def test_what_a_cluster_out_of_reach_reported_last_changes_nothing() -> None:
    story = ScalingStory(deployment(replicas=2), autoscaler())
    story.scheduled(member1=1, member2=1)
    found = story.binding(deployment())
    assert found is not None
    story.runs(member1=1, member2=1)
    found = story.binding(deployment())
    assert found is not None
    items = tuple(
        replace(item, out_of_reach_since=START, status={**(item.status or {}), "replicas": 5})
        for item in found.status.aggregated_status
    )

    story.edit(found.with_status(aggregated_status=items))

    assert story.wanted() == 2


def _held_by(kind: tuple[str, str], labels: dict[str, str]) -> tuple[Ensure, dict[str, Any]]:
    """Return an update of a workload to 2 replicas, and what the member has: 5 replicas."""
    api_version, name = kind
    metadata = {"name": "db", "namespace": "default", "labels": labels}
    wanted = {"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": {"replicas": 2, "paused": False}}
    return Ensure(Target("member1", "https://member1"), wanted, True), {**wanted, "spec": {"replicas": 5}}


@pytest.mark.parametrize(
    "kind",
    [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps.kruise.io/v1alpha1", "CloneSet"),
        ("example.io/v1", "Database"),
    ],
)
def test_the_label_lets_a_member_keep_the_replicas_of_a_workload_of_any_kind(kind: tuple[str, str]) -> None:
    marked, held = _held_by(kind, {RETAIN_REPLICAS_LABEL: "true"})
    plain, _ = _held_by(kind, {})

    assert marked.looks_first
    assert marked.over(held)["spec"] == {"replicas": 5, "paused": False}
    assert plain.over(held)["spec"] == {"replicas": 2, "paused": False}


def test_only_an_object_with_the_label_is_read_before_it_is_written() -> None:
    plain, _ = _held_by(("apps/v1", "StatefulSet"), {})

    assert not plain.looks_first


@pytest.mark.parametrize(("labels", "ready", "ends"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_an_eviction_ends_although_a_target_has_as_few_replicas_as_its_autoscaler_wants(
    labels: bool, ready: int, ends: bool
) -> None:
    """Fewer ready replicas than the template has are as many as the member asks for, if that decides."""
    web = deployment(labels={RETAIN_REPLICAS_LABEL: "true"} if labels else {})
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, (GracefulEvictionTask("member1", GRACEFULLY, creation_timestamp=START),), member2=3)
    story.report("member2", readyReplicas=ready)
    reported = story.binding(web)
    assert reported is not None
    binding = reported.with_status(scheduler_observed_generation=reported.metadata.generation)

    clusters = {"member1": ClusterState(False, True), "member2": ClusterState(True, False)}
    found = assess_tasks(binding, Settings(), clusters=clusters, now=START)

    assert ([gone.task.from_cluster for gone in found.cleared] == ["member1"]) is ends

"""Dry runs: what would be decided, on the fleet as it is or as it might be; documents that cannot be are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.errors import Invalid
from controlplane.insight import placement_review
from controlplane.kinds.binding import Binding, ResourceBindingStatus
from controlplane.kinds.placement_review import PlacementReviewStatus
from controlplane.scheduling.dry_run import Around
from controlplane.scheduling.trigger import APPLIED_PLACEMENT, applied_text
from controlplane.settings import GATES, Settings
from tests.builders import objects
from tests.builders.objects import cluster
from tests.builders.placements import placement, weights
from tests.builders.scheduling import spec

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BY_WEIGHT = weights(member1=1, member2=2)
STATIC: dict[str, Any] = {"replicaScheduling": msgspec.to_builtins(BY_WEIGHT)}
BY_ROOM: dict[str, Any] = {
    "replicaScheduling": {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
}
FLEET = [cluster("member1", room=10), cluster("member2", room=20)]


def deployment(replicas: int = 3, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }


FLINK: dict[str, Any] = {
    "apiVersion": "flink.apache.org/v1beta1",
    "kind": "FlinkDeployment",
    "metadata": {"name": "job", "namespace": "default"},
}


def policy(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterAffinity": {"clusterNames": ["member2"]}},
        },
    }


def reporting(**allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "member9"},
        "spec": {"syncMode": "Pull"},
        "status": {"resourceSummary": {"allocatable": allocatable}},
    }


def ask(binding: Binding | None = None, /, **asked: Any) -> PlacementReviewStatus:
    review = placement_review.decode_review({"spec": asked}, settings=Settings(), now=NOW)
    return placement_review.answer_review(review, FLEET, binding=binding, settings=Settings(), now=NOW)


def placed(status: PlacementReviewStatus) -> dict[str, int]:
    assert status.outcome in ("Placed", "ResultStands"), status.message
    return {one.name: one.replicas for one in status.clusters}


def reported(status: PlacementReviewStatus) -> dict[str, str]:
    assert status.explanation is not None
    return {one["name"]: one["sentence"] for one in status.explanation["clusters"]}


def bound() -> Binding:
    """A binding that was scheduled by weight: 1 and 2."""
    where = placement(how=BY_WEIGHT)
    wanted = spec(where, replicas=3, on={"member1": 1, "member2": 2})
    status = ResourceBindingStatus(last_scheduled_time=NOW)
    annotations = {APPLIED_PLACEMENT: applied_text(where)}
    return objects.bound(wanted, name="web-deployment", status=status, annotations=annotations)


def test_a_manifest_is_placed_as_the_scheduler_would() -> None:
    status = ask(manifest=deployment(), placement=STATIC)

    assert placed(status) == {"member1": 1, "member2": 2}
    assert reported(status) == {
        "member1": "chosen (weight 1), gets 1 of 3",
        "member2": "chosen (weight 2), gets 2 of 3",
    }


def test_a_whole_policy_stands_for_its_placement() -> None:
    assert placed(ask(manifest=deployment(), policy=policy("default"))) == {"member2": 3}


def test_what_is_lost_added_and_changed_counts() -> None:
    clusters = {
        "lost": ["member2"],
        "added": [
            {
                "metadata": {"name": "member9"},
                "spec": {"syncMode": "Push", "apiEndpoint": "https://member9.example"},
                "status": {
                    "apiEnablements": [
                        {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
                    ],
                    "resourceSummary": {"allocatable": {"pods": "30", "cpu": "30"}},
                },
            }
        ],
        "changed": [
            {
                "metadata": {"name": "member1"},
                "spec": {
                    "syncMode": "Push",
                    "apiEndpoint": "https://member1.example",
                    "taints": [{"key": "maintenance", "effect": "NoSchedule"}],
                },
            }
        ],
    }

    status = ask(manifest=deployment(), placement=BY_ROOM, clusters=clusters)

    assert placed(status) == {"member9": 3}
    assert reported(status) == {
        "member1": "TaintToleration refuses it: taint maintenance:NoSchedule is not tolerated",
        "member2": "Leaving refuses it: it is counted as unavailable",
        "member9": "chosen (room for 30 more), gets 3 of 3",
    }


def test_what_finds_no_room_is_reported_cluster_by_cluster() -> None:
    status = ask(manifest=deployment(replicas=50), placement=BY_ROOM)

    assert status.outcome == "Unschedulable"
    assert "member1: room for 10 more; member2: room for 20 more" in status.message


def test_a_binding_whose_result_stands_is_not_moved() -> None:
    assert ask(bound(), binding="default/web-deployment").outcome == "ResultStands"


@pytest.mark.parametrize("other", [{"name": "api"}, {"name": "web", "namespace": "elsewhere"}])
def test_a_manifest_beside_a_binding_is_of_the_same_object(other: dict[str, str]) -> None:
    own = deployment(replicas=6)

    assert placed(ask(bound(), binding="default/web-deployment", manifest=own)) == {"member1": 2, "member2": 4}
    with pytest.raises(Invalid, match="the binding is of Deployment"):
        ask(bound(), binding="default/web-deployment", manifest=own | {"metadata": other})


def test_a_binding_moves_off_a_lost_cluster() -> None:
    status = ask(bound(), binding="default/web-deployment", clusters={"lost": ["member1"]})

    assert placed(status) == {"member2": 3}


def test_the_groups_of_a_workload_are_seen_as_the_scheduler_sees_them() -> None:
    gates = Settings(feature_gates={**GATES, "WorkloadAffinity": True})
    own = {"workloadAffinity": {"affinity": {"groupByLabelKey": "app"}}}
    manifest = deployment() | {"metadata": {"name": "web", "namespace": "default", "labels": {"app": "near"}}}
    asked: list[Binding] = []

    def around(subject: Binding) -> Around:
        asked.append(subject)
        return Around({("default", "affinity", "app=near"): {"other-deployment": ["member2"]}})

    review = placement_review.decode_review({"spec": {"manifest": manifest, "placement": own}}, settings=gates, now=NOW)
    status = placement_review.answer_review(review, FLEET, around=around, settings=gates, now=NOW)
    lost = placement_review.decode_review(
        {"spec": {"manifest": manifest, "placement": own, "clusters": {"lost": ["member2"]}}}, settings=gates, now=NOW
    )

    assert placed(status) == {"member2": 3}
    assert placed(placement_review.answer_review(lost, FLEET, around=around, settings=gates, now=NOW)) == {"member1": 3}
    assert [one.metadata.name for one in asked] == ["web-deployment", "web-deployment"]


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "spec.manifest"),
        ({"manifest": deployment()}, "spec.placement"),
        ({"manifest": deployment(), "placement": {}, "policy": {}}, "spec.placement"),
        ({"manifest": {"kind": "Deployment"}, "placement": {}}, "spec.manifest.apiVersion"),
        ({"manifest": deployment(), "policy": {"kind": "Secret"}}, "spec.policy.kind"),
        ({"manifest": deployment(), "placement": {}, "clusters": {"lost": ["member7"]}}, "spec.clusters.lost[0]"),
        (
            {"manifest": deployment(), "placement": {}, "clusters": {"changed": [{"metadata": {"name": "x"}}]}},
            "spec.clusters.changed[0].metadata.name",
        ),
        (
            {"manifest": deployment(), "placement": {"spreadConstraints": [{"minGroups": 2, "maxGroups": 1}]}},
            "spec.placement.spreadConstraints[0]",
        ),
        ({"manifest": {"apiVersion": 5, "kind": ["Deployment"]}, "placement": {}}, "spec.manifest.apiVersion"),
        ({"manifest": deployment(cpu="much"), "placement": {}}, "spec.manifest"),
        ({"manifest": deployment(replicas=-1), "placement": BY_ROOM}, "spec.manifest.spec.replicas"),
        (
            {"manifest": FLINK | {"spec": {"jobManager": {"resource": {"memory": "much"}}}}, "placement": {}},
            "spec.manifest",
        ),
        ({"manifest": FLINK | {"spec": "much"}, "placement": {}}, "spec.manifest"),
        ({"manifest": deployment(), "policy": policy("elsewhere")}, "spec.policy.metadata.namespace"),
        (
            {"manifest": deployment(), "placement": {}, "clusters": {"added": [reporting(cpu="much")]}},
            "spec.clusters.added[0].status.resourceSummary.allocatable[cpu]",
        ),
    ],
)
def test_a_review_that_cannot_be_is_refused_with_its_field(asked: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        ask(**asked)

    assert any(cause.field.startswith(field) for cause in refused.value.details.causes), refused.value.details.causes

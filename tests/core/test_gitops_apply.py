"""GitOps tools that apply server-side, again and again, beside the controllers of the control plane."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from controlplane.admission.admit import admit_create, admit_update
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.kind import KINDS
from controlplane.settings import Settings
from controlplane.wire.managed_fields import server_side_apply
from tests.builders.objects import policy
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story

ARGO_CD, FLUX = "argocd-controller", "kustomize-controller"
LABELS = {"app": "web"}
SELECTS = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]
DOCUMENTS: dict[str, dict[str, Any]] = {
    "Deployment": {
        "apiVersion": "apps/v1",
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [{"name": "main", "image": "nginx", "ports": [{"containerPort": 80}]}]},
            },
        },
    },
    "Service": {"apiVersion": "v1", "spec": {"selector": LABELS, "ports": [{"port": 80}]}},
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "spec": {
            "replicas": 3,
            "serviceName": "web",
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [{"name": "main", "image": "nginx"}]},
            },
        },
    },
    "HorizontalPodAutoscaler": {
        "apiVersion": "autoscaling/v2",
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 5,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
                }
            ],
        },
    },
    "FederatedResourceQuota": {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "spec": {"overall": {"cpu": "1000m"}, "staticAssignments": [{"clusterName": "member1", "hard": {"cpu": "1"}}]},
    },
    "ConfigMap": {"apiVersion": "v1", "data": {"key": "value"}},
    "PropagationPolicy": {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "spec": {
            "resourceSelectors": SELECTS,
            "placement": {"clusterAffinity": {"clusterNames": ["member1", "member2"]}},
        },
    },
    "OverridePolicy": {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "spec": {
            "resourceSelectors": SELECTS,
            "overrideRules": [
                {
                    "targetCluster": {"clusterNames": ["member1"]},
                    "overriders": {"labelsOverrider": [{"operator": "add", "value": {"a": "b"}}]},
                }
            ],
        },
    },
}


def document(kind: str) -> dict[str, Any]:
    given = copy.deepcopy(DOCUMENTS[kind])
    return {**given, "kind": kind, "metadata": {"name": "web", "namespace": "default", "labels": LABELS}}


def plain(one: Object) -> dict[str, Any]:
    unfold = getattr(one, "unfold", None)
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(one if unfold is None else unfold()))
    return found


def applied(story: Story, doc: dict[str, Any], manager: str, *, force: bool = False) -> bool:
    """Apply a document as the API does, let the controllers react, and return whether something was written."""
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    ref = Ref(kind.key, "default", "web")
    live = story.store.objects.get(ref)
    made = server_side_apply(
        None if live is None else plain(live),
        doc,
        manager=manager,
        force=force,
        schema=kind.schema(),
        now=story.now,
        api_version=doc["apiVersion"],
        resets=("status",),
    )
    if live is None:
        uid = f"uid-{doc['kind']}"
        story.add(admit_create(kind, made, namespace="default", settings=Settings(), now=story.now, uid=uid).object)
        return True
    new = admit_update(kind, made, live, settings=Settings(), now=story.now).object
    if plain(new) == plain(live):
        return False
    story.edit(new)
    return True


@pytest.fixture
def story() -> Story:
    """A policy that claims everything, so that controllers write their fields into what is applied."""
    return Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT))


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("force", [False, True], ids=["", "forced"])
def test_a_second_apply_conflicts_with_no_controller_and_changes_nothing(
    story: Story, kind: str, *, force: bool
) -> None:
    assert applied(story, document(kind), ARGO_CD, force=force)
    before = story.store.version

    assert not applied(story, document(kind), ARGO_CD, force=force)
    assert applied(story, document(kind), FLUX, force=force)  # now it owns the fields as well
    assert not applied(story, document(kind), FLUX, force=force)
    assert not applied(story, document(kind), ARGO_CD, force=force)
    assert story.store.version > before
    assert story.again() == 0


def test_what_controllers_write_stays_through_every_apply(story: Story) -> None:
    web = document("Deployment")
    applied(story, web, ARGO_CD)
    live: Any = next(one for one in story.store.objects.values() if one.kind == "Deployment")
    story.place(live, member1=2, member2=1)
    story.report("member1", replicas=2, readyReplicas=2, updatedReplicas=2, availableReplicas=2)
    claimed = story.template(live)
    assert claimed.status
    assert claimed.metadata.labels.keys() - LABELS.keys() or claimed.metadata.annotations

    web["spec"]["replicas"] = 4
    web["metadata"]["labels"] = {"app": "web", "tier": "front"}
    assert applied(story, web, ARGO_CD)

    after = story.template(live)
    assert after.spec["replicas"] == 4
    assert claimed.metadata.annotations.items() <= after.metadata.annotations.items()
    assert claimed.metadata.labels.items() <= after.metadata.labels.items()
    assert after.status["availableReplicas"] == 2


def test_a_field_that_is_applied_no_more_goes_and_controllers_fields_stay(story: Story) -> None:
    web = document("Deployment")
    applied(story, web, FLUX)
    live: Any = next(one for one in story.store.objects.values() if one.kind == "Deployment")
    claimed = story.template(live).metadata

    del web["spec"]["replicas"], web["metadata"]["labels"]
    applied(story, web, FLUX)

    after = story.template(live).metadata
    assert dict(after.labels) == {name: value for name, value in claimed.labels.items() if name not in LABELS}
    assert after.annotations == claimed.annotations

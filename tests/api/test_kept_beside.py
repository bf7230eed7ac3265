"""What is kept beside documents to find them by: whatever a user writes is stored as it is, or refused by field.

None of it may end as an error of the server, and none may stand in the way of what is written together with it later.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.server import Client
from tests.builders.documents import (
    CLUSTERS,
    Document,
    cluster,
    config_map,
    config_maps,
    deployment,
    deployments,
    policies,
    policy,
)

NUL = "a\0b"
LONG = "".join(random.Random(1).choices(string.ascii_letters, k=9000))  # more than an index takes, however packed
MUCH = 1 << 63
MOST = (1 << 31) - 1  # in the fields that Karmada's Go types hold in 32 bits
CLAIM = "propagationpolicy.karmada.io/name"


def bindings(namespace: str) -> str:
    return f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"


def works(namespace: str) -> str:
    return f"/apis/work.karmada.io/v1alpha1/namespaces/{namespace}/works"


def events(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/events"


def failbacks(namespace: str) -> str:
    return "/apis/failover.lifeboat.io/v1alpha1/failbacks"


def taint_policies(namespace: str) -> str:
    return "/apis/policy.karmada.io/v1alpha1/clustertaintpolicies"


def cluster_roles(namespace: str) -> str:
    return "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def clusters(namespace: str) -> str:
    return CLUSTERS


def binding(**spec: Any) -> Document:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    return {"metadata": {"name": "web"}, "spec": {"resource": resource, **spec}}


def annotated(document: Document, **annotations: str) -> Document:
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


def event(**fields: Any) -> Document:
    return {
        "metadata": {"name": "reported"},
        "involvedObject": {"kind": "Pod", "name": "web"},
        "reason": "Reported",
        **fields,
    }


def work(**metadata: Any) -> Document:
    manifest = config_map("one", text=NUL)
    return {"metadata": {"name": "one", **metadata}, "spec": {"workload": {"manifests": [manifest]}}}


NAMES = {"clusterAffinity": {"clusterNames": [LONG]}}
CHOSEN = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": LONG}}}}

Place = Callable[[str], str]

REFUSED: dict[str, tuple[Place, Document, str]] = {
    # A NUL
    "NUL in a name": (cluster_roles, {"metadata": {"name": NUL}}, "metadata.name"),
    "NUL in a label": (config_maps, config_map("one", labels={"a": NUL}), "metadata.labels.a"),
    "NUL in an annotation": (
        config_maps,
        annotated(config_map("one"), **{CLAIM: NUL}),
        f"metadata.annotations[{CLAIM}]",
    ),
    "NUL in a cluster's field": (clusters, cluster("nul", region=NUL), "spec.region"),
    "NUL in a taint": (
        clusters,
        cluster("nul", taints=[{"key": "a", "value": NUL, "effect": "NoExecute"}]),
        "spec.taints[0].value",
    ),
    "NUL in a target": (bindings, binding(clusters=[{"name": NUL}]), "spec.clusters[0].name"),
    "NUL in a task": (
        bindings,
        binding(gracefulEvictionTasks=[{"fromCluster": "a", "reason": NUL}]),
        "spec.gracefulEvictionTasks[0].reason",
    ),
    "NUL in a policy": (policies, policy("one", schedulerName=NUL), "spec.schedulerName"),
    "NUL in what goes back": (failbacks, {"metadata": {"name": "one"}, "spec": {"cluster": NUL}}, "spec.cluster"),
    "NUL in an Event's reason": (events, event(reason=NUL), "reason"),
    "NUL in an Event's message": (events, event(message=NUL), "message"),
    # Texts longer than an index takes
    "a long name": (cluster_roles, {"metadata": {"name": LONG}}, "metadata.name"),
    "a long claim": (config_maps, annotated(config_map("one"), **{CLAIM: LONG}), f"metadata.annotations[{CLAIM}]"),
    "a long target": (bindings, binding(clusters=[{"name": LONG}]), "spec.clusters[0].name"),
    "a long source": (
        bindings,
        binding(gracefulEvictionTasks=[{"fromCluster": LONG}]),
        "spec.gracefulEvictionTasks[0].fromCluster",
    ),
    "a long parent": (bindings, binding(requiredBy=[{"name": LONG}]), "spec.requiredBy[0].name"),
    "a long choice by name": (bindings, binding(placement=NAMES), "spec.placement.clusterAffinity.clusterNames[0]"),
    "a long choice by label": (
        bindings,
        binding(placement=CHOSEN),
        "spec.placement.clusterAffinity.labelSelector.matchLabels.tier",
    ),
    "a long kind": (
        policies,
        policy("one", resourceSelectors=[{"apiVersion": "apps/v1", "kind": LONG}]),
        "spec.resourceSelectors[0].kind",
    ),
    "a long subject": (events, event(involvedObject={"kind": "Pod", "name": "a", "uid": LONG}), "involvedObject.uid"),
    # Numbers
    "replicas": (bindings, binding(replicas=MUCH), "spec.replicas"),
    "replicas that cannot be added up": (bindings, binding(replicas=1 << 31), "spec.replicas"),
    "a target's replicas": (
        bindings,
        binding(clusters=[{"name": "a", "replicas": 1 << 31}]),
        "spec.clusters[0].replicas",
    ),
    "a binding's priority": (bindings, binding(schedulePriority={"priority": MUCH}), "spec.schedulePriority.priority"),
    "a policy's priority": (policies, policy("one", priority=MUCH), "spec.priority"),
    "a grace period": (
        bindings,
        binding(gracefulEvictionTasks=[{"fromCluster": "a", "gracePeriodSeconds": MUCH}]),
        "spec.gracefulEvictionTasks[0].gracePeriodSeconds",
    ),
    # Dates
    "a date that is none": (
        clusters,
        cluster("dated", taints=[{"key": "a", "effect": "NoExecute", "timeAdded": "10000-01-01T00:00:00Z"}]),
        "spec.taints[0].timeAdded",
    ),
}

STORED: dict[str, tuple[Place, Document]] = {
    "NUL in data": (config_maps, config_map("one", text=NUL)),
    "NUL in what is for a container": (deployments, deployment("one", image=NUL)),
    "NUL in a manifest": (works, work()),
    "a long image": (deployments, deployment("one", image=LONG)),
    "a long text": (config_maps, config_map("one", text=LONG)),
    "a long Event": (events, event(message=LONG)),
    "a toleration for ever": (
        policies,
        policy("one", placement={"clusterTolerations": [{"operator": "Exists", "tolerationSeconds": MUCH - 1}]}),
    ),
    "the longest wait": (policies, policy("one", failover={"cluster": {"tolerationSeconds": MOST}})),
    "the longest window": (
        taint_policies,
        {
            "metadata": {"name": "one"},
            "spec": {"taintsToAdd": [{"key": "a", "effect": "NoExecute", "addOnMatchSeconds": MOST}]},
        },
    ),
    "the last date there is": (
        clusters,
        cluster("last", taints=[{"key": "a", "effect": "NoExecute", "timeAdded": "9999-12-31T23:59:59Z"}]),
    ),
    "the first date there is": (
        clusters,
        cluster("first", taints=[{"key": "a", "effect": "NoExecute", "timeAdded": "0001-01-01T00:00:00Z"}]),
    ),
}


@pytest.mark.parametrize(("place", "document", "field"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_kept_is_refused_by_field(
    api: Client, namespace: str, place: Place, document: Document, field: str
) -> None:
    answer = api.post(place(namespace), document)

    causes = answer.document["details"]["causes"]
    assert answer.status == 422, answer.body
    assert field in {cause["field"] for cause in causes}, causes


@pytest.mark.parametrize(("place", "document"), STORED.values(), ids=STORED)
def test_what_is_in_the_document_alone_is_stored_as_it_is(
    api: Client, namespace: str, place: Place, document: Document
) -> None:
    made = api.post(place(namespace), document)
    assert made.status == 201, made.body

    url = f"{place(namespace)}/{document['metadata']['name']}"
    found = api.get(url).document
    assert api.delete(url).status == 200  # what has no namespace concerns the other tests of this server

    for part in document.keys() - {"metadata", "apiVersion", "kind"}:
        assert _within(document[part], found[part]), (document[part], found[part])


def _within(sent: Any, found: Any) -> bool:
    """Test whether everything that was sent is found; defaults may stand beside it."""
    if isinstance(sent, dict):
        return all(name in found and _within(inner, found[name]) for name, inner in sent.items())
    if isinstance(sent, list):
        return len(sent) == len(found) and all(map(_within, sent, found))
    return bool(sent == found)


@pytest.mark.parametrize(
    ("type", "body"),
    [
        ("application/json", rb'{"metadata": {"name": "one"}, "data": {"a": "\ud800"}}'),
        ("application/json", b'{"metadata": {"name": "one"}, "data": {"a": "\xff"}}'),
        ("application/yaml", rb'{metadata: {name: one}, data: {a: "\ud800"}}'),
    ],
    ids=["half a pair", "no UTF-8", "half a pair in YAML"],
)
def test_a_text_that_is_none_is_refused(api: Client, namespace: str, type: str, body: bytes) -> None:
    assert api.ask("POST", config_maps(namespace), body, type=type).status == 400


@pytest.mark.parametrize("token", [[1 << 70, "", "a"], [1, "", NUL], [-1, "", "a"]])
def test_a_token_of_a_list_that_no_server_gave_is_refused(api: Client, namespace: str, token: list[Any]) -> None:
    text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode()

    answer = api.get(config_maps(namespace), limit=1, **{"continue": text})

    assert (answer.status, "continue" in answer.document["message"]) == (400, True)

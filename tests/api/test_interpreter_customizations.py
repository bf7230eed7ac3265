"""A customization gives a kind its meaning: replicas, dependencies and status of its objects follow it, and its edits
[resource-interpreter]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server

Document = dict[str, Any]
CUSTOMIZATIONS = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations"
WEBHOOKS = "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations"
REPLICAS = """
local kube = require("kube")
function GetReplicas(object)
  return object.spec.count, kube.accuratePodRequirements(object.spec.template)
end
"""
NEEDS = """
function GetDependencies(object)
  return {{apiVersion = "v1", kind = "ConfigMap", name = object.spec.config, namespace = object.metadata.namespace}}
end
"""


def customization(name: str, kind: str, **scripts: str) -> Document:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": name},
        "spec": {
            "target": {"apiVersion": f"{kind.lower()}.example.com/v1", "kind": kind},
            "customizations": {field: {"luaScript": text} for field, text in scripts.items()},
        },
    }


def defined(api: Client, kind: str) -> str:
    """Define a kind; return the path of its objects in a namespace, to be formatted with the namespace."""
    group, plural = f"{kind.lower()}.example.com", f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    made = api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": spec,
        },
    )
    assert made.status == 201, made.body
    return f"/apis/{group}/v1/namespaces/{{}}/{plural}"


def propagated(api: Client, server: Server, kind: str, path: str, namespace: str, **spec: Any) -> None:
    """Create an object named `thing` and a policy for its kind, and let the controllers make its binding."""
    work(server, "definitions")
    version = f"{kind.lower()}.example.com/v1"
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": kind.lower()},
        "spec": {"resourceSelectors": [{"apiVersion": version, "kind": kind}], "propagateDeps": True, "placement": {}},
    }
    made = api.post(f"/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/propagationpolicies", policy)
    assert made.status == 201, made.body
    thing = {"apiVersion": version, "kind": kind, "metadata": {"name": "thing"}, "spec": spec}
    made = api.post(path.format(namespace), thing)
    assert made.status == 201, made.body
    work(server, "policies", "dependencies")


def binding(api: Client, kind: str, namespace: str) -> Document:
    path = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/thing-{kind.lower()}"
    found: Document = api.get(path).document
    return found


def test_an_edit_of_a_script_is_decided_again_for_every_object_of_its_kind(
    api: Client, server: Server, namespace: str
) -> None:
    path = defined(api, "Press")
    made = api.post(CUSTOMIZATIONS, customization("press", "Press", replicaResource=REPLICAS))
    assert made.status == 201, made.body
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]}}
    propagated(api, server, "Press", path, namespace, count=3, template=pod)

    first = binding(api, "Press", namespace)["spec"]
    edited = customization(
        "press", "Press", replicaResource=REPLICAS.replace("object.spec.count,", "object.spec.count * 2,")
    )
    edited["metadata"]["resourceVersion"] = made.document["metadata"]["resourceVersion"]
    assert api.put(f"{CUSTOMIZATIONS}/press", edited).status == 200
    work(server, "policies")
    second = binding(api, "Press", namespace)["spec"]
    assert api.delete(f"{CUSTOMIZATIONS}/press").status == 200
    work(server, "policies")
    third = binding(api, "Press", namespace)["spec"]

    assert (first["replicas"], first["replicaRequirements"]["resourceRequest"]) == (3, {"cpu": "250m"})
    assert second["replicas"] == 6
    assert third.get("replicas", 0) == 0


def test_a_broken_script_is_an_event_on_its_objects_and_stops_no_other_kind(
    api: Client, server: Server, namespace: str
) -> None:
    broken = "function GetReplicas(object)\n  return object.spec.missing.count\nend"
    paths = {kind: defined(api, kind) for kind in ("Loom", "Mill")}
    assert api.post(CUSTOMIZATIONS, customization("loom", "Loom", replicaResource=broken)).status == 201
    assert api.post(CUSTOMIZATIONS, customization("mill", "Mill", replicaResource=REPLICAS)).status == 201
    propagated(api, server, "Mill", paths["Mill"], namespace, count=2, template={"spec": {"containers": []}})

    propagated(api, server, "Loom", paths["Loom"], namespace, count=2)

    assert binding(api, "Mill", namespace)["spec"]["replicas"] == 2
    assert binding(api, "Loom", namespace)["kind"] == "Status"
    events = api.get(f"/api/v1/namespaces/{namespace}/events").document["items"]
    (event,) = (event for event in events if event["reason"] == "GetReplicasFailed")
    assert event["involvedObject"]["kind"] == "Loom"
    assert (
        "InterpretReplica by customization loom failed: script:2: attempt to index field 'missing'" in event["message"]
    )


def test_scripts_for_dependencies_of_two_customizations_are_both_used(
    api: Client, server: Server, namespace: str
) -> None:
    path = defined(api, "Kiln")
    for name, field in (("kiln-a", "config"), ("kiln-b", "other")):
        text = NEEDS.replace("spec.config", f"spec.{field}")
        assert api.post(CUSTOMIZATIONS, customization(name, "Kiln", dependencyInterpretation=text)).status == 201
    for name in ("first", "second"):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {}}
        assert api.post(f"/api/v1/namespaces/{namespace}/configmaps", config).status == 201

    propagated(api, server, "Kiln", path, namespace, config="first", other="second")

    attached = api.get(f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings").document["items"]
    assert {"first-configmap", "second-configmap"} <= {item["metadata"]["name"] for item in attached}


@pytest.mark.parametrize(
    ("scripts", "why"),
    [
        (
            {"replicaResource": "function GetReplicas("},
            "InterpreterOperation(InterpretReplica) Lua script error: script:1:",
        ),
        ({"healthInterpretation": REPLICAS}, "of existing ResourceInterpreterCustomization(taken)"),
        ({"retention": ""}, "write a script with the function Retain"),
    ],
)
def test_a_customization_that_cannot_work_is_refused(api: Client, scripts: dict[str, str], why: str) -> None:
    api.post(CUSTOMIZATIONS, customization("taken", "Taken", healthInterpretation=REPLICAS))

    refused = api.post(CUSTOMIZATIONS, customization("new", "Taken", **scripts))

    assert refused.status == 422
    assert why in refused.document["message"]


def test_a_webhook_without_https_is_refused_with_its_field(api: Client) -> None:
    webhook = {
        "name": "things.example.com",
        "clientConfig": {"url": "http://hooks.example.com/"},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "kinds": ["*"]}],
        "interpreterContextVersions": ["v1alpha1"],
    }
    refused = api.post(
        WEBHOOKS,
        {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "things"},
            "webhooks": [webhook],
        },
    )

    assert refused.status == 422
    assert refused.document["details"]["causes"][0]["field"] == "webhooks[0].clientConfig.url"


def test_a_placement_review_asks_the_scripts_of_the_kind(api: Client, server: Server, namespace: str) -> None:
    defined(api, "Anvil")
    work(server, "definitions")
    assert api.post(CUSTOMIZATIONS, customization("anvil", "Anvil", replicaResource=REPLICAS)).status == 201
    spec = {"count": 3, "template": {"spec": {"containers": []}}}
    metadata = {"name": "thing", "namespace": namespace}
    thing = {"apiVersion": "anvil.example.com/v1", "kind": "Anvil", "metadata": metadata, "spec": spec}
    review = {"spec": {"manifest": thing, "placement": {}}}

    answer = api.post("/apis/failover.lifeboat.io/v1alpha1/placementreviews", review)

    assert answer.status == 201, answer.body
    assert api.delete(f"{CUSTOMIZATIONS}/anvil").status == 200

"""What other programs ask of the API besides objects: OpenAPI v2, categories, waits and raw paths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.builders.documents import deployment, deployments
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_kubectl_explains_from_openapi_v2(k: Kubectl) -> None:
    said = k("explain", "deployments.spec.template.spec.containers.ports", "--output", "plaintext-openapiv2")
    own = k("explain", "propagationpolicies.spec.placement", "--output", "plaintext-openapiv2")

    assert "containerPort\t<integer> -required-" in said
    assert "spreadConstraints" in own


def test_openapi_v2_has_every_path_and_schema_of_v3(k: Kubectl) -> None:
    swagger = json.loads(k("get", "--raw", "/openapi/v2"))
    deployments_v3 = json.loads(k("get", "--raw", "/openapi/v3/apis/apps/v1"))

    assert swagger["swagger"] == "2.0"
    assert deployments_v3["paths"].keys() <= swagger["paths"].keys()
    assert deployments_v3["components"]["schemas"].keys() <= swagger["definitions"].keys()
    assert "#/components/" not in json.dumps(swagger)


def test_every_category_can_be_listed(k: Kubectl) -> None:
    categories = {
        category
        for group in ("/api", "/apis")
        for found in json.loads(k("get", "--raw", group)).get("groups", ())
        for version in found["versions"]
        for resource in json.loads(k("get", "--raw", f"/apis/{version['groupVersion']}"))["resources"]
        for category in resource.get("categories", ())
    }

    assert {"all", "api-extensions"} <= categories
    for category in categories:
        k("get", category, "--all-namespaces")
        k("get", category, "--all-namespaces", "-o", "name")


def test_kubectl_waits_for_a_deployment_to_be_available(k: Kubectl, api: Client) -> None:
    name = "waited-for"
    api.post(deployments(k.namespace), deployment(name))
    waiting = k.start("wait", "--for=condition=Available", f"deployment/{name}", "--timeout=30s")
    status = {"conditions": [{"type": "Available", "status": "True"}], "replicas": 1, "readyReplicas": 1}
    api.patch(f"{deployments(k.namespace, name)}/status", {"status": status})

    said, _ = waiting.communicate(timeout=40)

    assert "condition met" in said


@pytest.mark.parametrize(
    "path", ["/healthz", "/livez", "/readyz", "/livez?verbose", "/version", "/metrics", "/", "/api", "/apis"]
)
def test_raw_paths_are_answered(k: Kubectl, path: str) -> None:
    assert k("get", "--raw", path).strip()


def test_kubectl_gets_autoscalers_and_events_in_both_versions(k: Kubectl, api: Client) -> None:
    api.post(deployments(k.namespace), deployment("scaled"))
    k("autoscale", "deployment/scaled", "--min=2", "--max=4", "--cpu-percent=60")
    older = "horizontalpodautoscalers.v1.autoscaling"  # kubectl asks for the newest version where the name is short
    (line,) = k("get", older, "--no-headers").splitlines()
    assert line.split()[:7] == ["scaled", "Deployment/scaled", "cpu:", "<unknown>/60%", "2", "4", "0"]
    assert k("get", older, "scaled", "-o", "jsonpath={.apiVersion}") == "autoscaling/v1"
    assert k("get", "hpa", "scaled", "-o", "jsonpath={.apiVersion}") == "autoscaling/v2"

    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "scaled.1"},
        "involvedObject": {"kind": "Deployment", "name": "scaled", "namespace": k.namespace},
        "reason": "Scaled",
        "message": "two more",
        "type": "Normal",
    }
    assert api.post(f"/api/v1/namespaces/{k.namespace}/events", event).status == 201
    newer = k("get", "events.events.k8s.io", "--field-selector", "regarding.name=scaled", "--no-headers")
    assert newer.split()[1:] == ["Normal", "Scaled", "deployment/scaled", "two", "more"]
    assert k("get", "events.events.k8s.io", "scaled.1", "-o", "jsonpath={.apiVersion} {.note}") == (
        "events.k8s.io/v1 two more"
    )

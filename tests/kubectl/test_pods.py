"""kubectl's commands about running pods, which the control plane refuses at once [pods-are-in-members]."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.builders.documents import deployment
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_logs_exec_attach_and_port_forward_are_refused_at_once_with_the_way(k: Kubectl, api: Client) -> None:
    assert api.post(f"/apis/apps/v1/namespaces/{k.namespace}/deployments", deployment("web")).status == 201
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": k.namespace}
    spec = {"resource": resource, "replicas": 2, "clusters": [{"name": "member1", "replicas": 2}]}
    binding = {"metadata": {"name": "web-deployment"}, "spec": spec}
    assert api.post(BINDINGS.format(k.namespace), binding).status == 201
    began = time.monotonic()

    said = {
        command: k(*command.split(), code=1)
        for command in (
            "logs deploy/web",
            "logs -f web-7cff7755c7-4khkk",
            "exec deploy/web -- ls",
            "attach deploy/web",
            "port-forward deploy/web 8080:80",
        )
    }

    assert time.monotonic() - began < 15  # each would wait for 20 s or a minute
    for command, text in said.items():
        assert "those of deployment/web run in member1" in text, command
        assert f"clusters/member1/proxy -n {k.namespace} {command.split()[0]}" in text, command


def test_a_client_that_does_not_name_its_command_is_refused_as_well(api: Client, namespace: str) -> None:
    for stream, method in (("log", "GET"), ("exec", "POST"), ("attach", "POST"), ("portforward", "POST")):
        answer = api.ask(method, f"/api/v1/namespaces/{namespace}/pods/web-1/{stream}")

        assert (answer.status, answer.document["reason"]) == (400, "BadRequest")
        assert "the control plane runs no pods" in answer.document["message"]


def test_metrics_are_refused_with_the_reason(k: Kubectl) -> None:
    for what in ("pods", "nodes"):
        text = k("top", what, code=1)

        assert "each member measures its own" in text
        assert f"/clusters/CLUSTER/proxy top {what}" in text
    assert "metrics.k8s.io" not in k("api-resources")

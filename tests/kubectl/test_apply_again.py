"""kubectl apply of the same file, twice: the second apply changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.server import Client, Server
from tests.built_in.requests import bases
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl

# kubectl prints `configured` for these on a kube-apiserver 1.36 too, because a default stands in an item of a list that
# it replaces as a whole, or because it writes a default that the object has in another spelling.
CONFIGURED = {
    *("deployment.apps/k-web", "statefulset.apps/k-db", "job.batch/k-once", "node/k-node-a"),
    *("networkpolicy.networking.k8s.io/k-closed", "poddisruptionbudget.policy/k-budget"),
    *("poddisruptionbudget.policy/k-share", "clusterrolebinding.rbac.authorization.k8s.io/k-lab-bound"),
    *("priorityclass.scheduling.k8s.io/k-high", "limitrange/k-limits"),
}


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def manifests(k: Kubectl) -> list[Any]:
    made = []
    for base in bases().values():
        document = json.loads(json.dumps(base.document).replace('"nodeName": "n"', '"nodeName": "node"'))
        document["metadata"]["name"] = f"k-{document['metadata']['name']}"
        if base.resource.namespaced:
            document["metadata"]["namespace"] = k.namespace
        made.append(document)
    return made


def versions(k: Kubectl, file: str) -> dict[str, tuple[str, Any]]:
    """Return resourceVersion and generation of every object of a file."""
    answer = json.loads(k("get", "-f", file, "-o", "json"))
    found = answer.get("items", [answer])
    return {
        f"{item['kind']}/{item['metadata']['name']}": (
            item["metadata"]["resourceVersion"],
            item["metadata"].get("generation"),
        )
        for item in found
    }


def test_applying_every_built_in_kind_again_changes_nothing(k: Kubectl) -> None:
    file = k.file(*manifests(k))
    try:
        k("apply", "-f", file)
        before = versions(k, file)
        lines = k("apply", "-f", file).splitlines()
        after = versions(k, file)
    finally:
        k("delete", "-f", file, "--wait=false", "--ignore-not-found")

    assert {line.split()[0] for line in lines if line.endswith(" configured")} <= CONFIGURED
    assert sum(line.endswith(" unchanged") for line in lines) >= len(before) - len(CONFIGURED)
    assert after == before


def test_a_default_in_an_item_of_a_list_prints_configured_and_stores_nothing(k: Kubectl, api: Client) -> None:
    """As on a kube-apiserver: kubectl replaces lists of custom kinds as a whole, so its patch is not empty."""
    taint = {"key": "example.io/broken", "effect": "NoExecute"}
    match = [{"conditionType": "Broken", "operator": "In", "statusValues": ["True"]}]
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": f"again-{k.namespace}"},
        "spec": {"addOnConditions": match, "removeOnConditions": match, "taints": [taint]},
    }
    file = k.file(policy)
    k("apply", "-f", file)
    before = versions(k, file)
    version = next(iter(before.values()))[0]

    said = k("apply", "-f", file)

    assert said.split()[-1] in ("configured", "unchanged")
    assert versions(k, file) == before
    events = (
        f"/apis/policy.karmada.io/v1alpha1/clustertaintpolicies?watch=true&timeoutSeconds=1&resourceVersion={version}"
    )
    assert policy["metadata"]["name"] not in k("get", "--raw", events)
    k("delete", "-f", file)


def test_a_client_side_apply_compares_with_what_was_applied_server_side(k: Kubectl, api: Client) -> None:
    """So it removes what is gone from the manifest since, and leaves what another one has set since."""

    def config(**data: str) -> str:
        return k.file({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "both"}, "data": data})

    k("apply", "-f", config(a="1", left="mine"))
    k("apply", "--server-side", "-f", config(a="1", more="2"))
    k("patch", "configmap", "both", "-p", '{"data": {"left": "other"}}')

    said = k("apply", "-f", config(a="1"))

    assert said.strip() == "configmap/both configured"
    assert api.get(f"/api/v1/namespaces/{k.namespace}/configmaps/both").document["data"] == {"a": "1", "left": "other"}

"""Only users who may read the credentials of a member decide where they are sent [credentials-of-members]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.roles import bind, user, wait_until_allowed
from tests.api.server import Client, Server
from tests.builders.documents import CLUSTERS

CLUSTER_GROUP = "cluster.karmada.io"


@pytest.fixture(scope="module")
def olga(server: Server) -> Client:
    """An operator, who may not read Secrets."""
    client = user(server, "olga")
    bind(server.client(), "olga", to={"kind": "User", "name": "olga"}, roles=("lifeboat:operator",))
    wait_until_allowed(client, "patch", "clusters", group=CLUSTER_GROUP)
    return client


@pytest.fixture
def joined(api: Client, namespace: str) -> str:
    """The URL of a cluster with credentials."""
    ref = {"namespace": namespace, "name": "token"}
    spec = {"syncMode": "Push", "apiEndpoint": "https://10.0.0.1:6443", "secretRef": ref}
    assert api.post(CLUSTERS, {"metadata": {"name": f"{namespace}-a"}, "spec": spec}).status == 201
    return f"{CLUSTERS}/{namespace}-a"


@pytest.mark.parametrize(
    "change",
    [
        {"apiEndpoint": "https://10.0.0.9:6443"},
        {"proxyURL": "http://10.0.0.9:3128"},
        {"insecureSkipTLSVerification": True},
        {"secretRef": {"namespace": "kube-system", "name": "other"}},
        {"impersonatorSecretRef": {"namespace": "kube-system", "name": "other"}},
    ],
)
def test_an_operator_sends_no_credentials_elsewhere(
    api: Client, olga: Client, joined: str, change: dict[str, Any]
) -> None:
    before = api.get(joined).document
    whole = {**before, "spec": {**before["spec"], **change}}
    applied = {"apiVersion": before["apiVersion"], "kind": "Cluster", "metadata": {"name": before["metadata"]["name"]}}

    answers = [
        olga.patch(joined, {"spec": change}),
        olga.put(joined, whole),
        olga.patch(joined, {**applied, "spec": change}, "application/apply-patch+yaml", fieldManager="m", force="true"),
    ]

    assert [answer.status for answer in answers] == [403] * 3
    assert "may not get that Secret" in answers[0].document["message"]
    assert api.get(joined).document == before


def test_an_operator_taints_a_cluster_and_who_reads_its_secret_moves_it(
    api: Client, olga: Client, joined: str, namespace: str
) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    assert olga.patch(joined, {"spec": {"taints": [taint]}}).status == 200
    moved = {"spec": {"apiEndpoint": "https://10.0.0.9:6443"}}
    assert olga.patch(joined, moved).status == 403

    bind(api, "olga", to={"kind": "User", "name": "olga"}, roles=("edit",), namespace=namespace)
    wait_until_allowed(olga, "get", "secrets", namespace=namespace)

    assert olga.patch(joined, moved).status == 200

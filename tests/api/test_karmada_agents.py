"""Agents of Karmada, whose rights are roles: as agents of Lifeboat, each writes for its own cluster only."""

from __future__ import annotations

import pytest

from controlplane.authorization.agent_roles import allowed
from tests.api.roles import RBAC, bind, user, wait_until_allowed
from tests.api.server import Client, Server
from tests.api.test_agents import LEASES, lease
from tests.builders.documents import CLUSTERS, cluster


@pytest.fixture
def agent(server: Server, api: Client, namespace: str) -> Client:
    """The agent of the cluster `<namespace>-a`, with the ClusterRole that `karmadactl register` gives it."""
    name = f"{namespace}-a"
    role = {"metadata": {"name": f"system:karmada:{name}:agent"}, "rules": allowed(name, "")}
    assert api.post(f"{RBAC}/clusterroles", role).status == 201
    agent, subject = f"system:karmada:agent:{name}", {"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}
    client = user(server, agent)
    bind(api, f"{namespace}-agent", to={**subject, "name": agent}, roles=[role["metadata"]["name"]])
    wait_until_allowed(client, "create", "leases", group="coordination.k8s.io")
    return client


def test_an_agent_keeps_no_other_cluster_alive(agent: Client, api: Client, namespace: str) -> None:
    """The heartbeat of a lost cluster would go on, and its workloads would never move."""
    own, other = f"{namespace}-a", f"{namespace}-b"
    assert api.post(LEASES, lease(other)).status == 201

    assert agent.post(LEASES, lease(own)).status == 201
    assert agent.put(f"{LEASES}/{own}", lease(own)).status == 200
    assert agent.post(LEASES, lease(f"karmada-agent-{own}")).status == 201  # by which its replicas choose a leader
    refused = [
        agent.put(f"{LEASES}/{other}", lease(other)),
        agent.patch(f"{LEASES}/{other}", {"spec": {"renewTime": "2030-01-01T00:00:00.000000Z"}}),
        agent.post(LEASES, lease(f"{namespace}-c")),
    ]

    assert [answer.status for answer in refused] == [403] * 3
    assert f"the agent of {own} may write for this cluster only" in refused[0].document["message"]
    for name in (own, other, f"karmada-agent-{own}"):
        api.delete(f"{LEASES}/{name}")


def test_an_agent_joins_no_other_cluster(agent: Client, api: Client, namespace: str) -> None:
    """A policy may choose clusters by their names, and the agent says where the cluster is."""
    own, other = f"{namespace}-a", f"{namespace}-b"

    joined = agent.post(CLUSTERS, cluster(own, syncMode="Pull"))
    refused = agent.post(CLUSTERS, cluster(other, syncMode="Push", apiEndpoint="https://192.0.2.1"))

    assert (joined.status, refused.status) == (201, 403)
    assert api.get(f"{CLUSTERS}/{other}").status == 404
    assert agent.patch(f"{CLUSTERS}/{own}", {"metadata": {"labels": {"a": "b"}}}).status == 200

"""Agents of Pull members: each may renew its Lease, report its Cluster and work off its Works, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from typing import Any

import pytest
import yaml

from tests.api.server import SECONDS, Client, Server
from tests.builders.documents import CLUSTERS, cluster, config_map, config_maps
from tests.processes import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/karmada-cluster/leases"
FINALIZER = "karmada.io/execution-controller"
RECEIVED = "failover.lifeboat.io/received-at"


def works(name: str) -> str:
    return f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{name}/works"


def lease(name: str, *, at: datetime | None = None) -> dict[str, Any]:
    renewed = (at or datetime.now(UTC)).isoformat(timespec="microseconds")
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": renewed}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "karmada-cluster"},
        "spec": spec,
    }


def work(name: str) -> dict[str, Any]:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    return {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {"name": name},
        "spec": {"workload": {"manifests": [manifest]}},
    }


def test_an_api_process_shows_that_agents_can_report_to_it(server: Server) -> None:
    """Without that their silence counts for nothing, and a lost Pull member would never be noticed."""
    held = "SELECT max(until) - clock_timestamp() FROM objects_lease WHERE name = 'api'"
    server.sql("UPDATE objects_lease SET until = clock_timestamp() WHERE name = 'api'")

    until(lambda: server.sql(held)[0][0] > timedelta(0), within=SECONDS)


TEAMS = count()  # pytest-xdist may make the fixture twice for one server


@pytest.fixture(scope="module")
def team(server: Server) -> str:
    """What the names of two Pull members begin with, `…-a` and `…-b`; each has a Work."""
    api, name = server.client(), f"agents{next(TEAMS)}"
    for member in (f"{name}-a", f"{name}-b"):
        assert api.post(CLUSTERS, cluster(member, syncMode="Pull")).status == 201
        assert api.post("/api/v1/namespaces", {"metadata": {"name": f"karmada-es-{member}"}}).status == 201
        assert api.post(works(member), work("one")).status == 201
    return name


@pytest.fixture(scope="module")
def secret(server: Server, team: str) -> str:
    """The token of the first one's agent."""
    return server.manage("token", "create", "--agent", f"{team}-a")


@pytest.fixture
def agent(server: Server, api: Client, secret: str, team: str) -> Iterator[Client]:
    """The agent of the first one, which has not renewed its Lease yet."""
    yield server.client(secret)
    api.delete(f"{LEASES}/{team}-a")


def test_an_agent_does_what_agents_are_for(agent: Client, team: str) -> None:
    own = f"{team}-a"
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ClusterReady", "message": ""}]}}

    assert agent.post(LEASES, lease(own)).status == 201
    assert agent.put(f"{LEASES}/{own}", lease(own)).status == 200
    assert agent.patch(f"{LEASES}/{own}", {"spec": {"leaseDurationSeconds": 30}}).status == 200
    assert agent.patch(f"{CLUSTERS}/{own}/status", ready).status == 200
    assert agent.get(f"{CLUSTERS}/{own}").document["status"]["conditions"][0]["reason"] == "ClusterReady"
    assert len(agent.get(CLUSTERS, fieldSelector=f"metadata.name={own}").document["items"]) == 1
    assert len(agent.get(works(own)).document["items"]) == 1
    assert agent.patch(f"{works(own)}/one/status", {"status": {"conditions": []}}).status == 200
    assert agent.get("/apis").status == 200
    with agent.watch(works(own)) as stream:
        assert stream.status == 200


def test_an_agent_reports_no_more_than_the_scheduler_can_count_with(agent: Client, team: str) -> None:
    """A number is kept for each resource of each entry: these are ten million."""
    nodes = [{"count": 1, "free": {f"r{number}": "1" for number in range(3000)}}, *[{"count": 1}] * 3000]
    summary = {"nodePools": [{"nodes": nodes}]}

    answer = agent.patch(f"{CLUSTERS}/{team}-a/status", {"status": {"resourceSummary": summary}})

    assert answer.status == 422, answer.body
    (cause,) = answer.document["details"]["causes"]
    assert (cause["field"], "at most 256 entries" in cause["message"]) == ("status.resourceSummary.nodePools", True)


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"resourcebinding.karmada.io/permanent-id": "x"}}}, "metadata.labels"),
        ({"metadata": {"annotations": {"a": "b"}}}, "metadata.annotations"),
        ({"metadata": {"annotations": {"work.lifeboat.io/binding": "a/B:c/d"}}}, "work.lifeboat.io/binding"),
        ({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}]}}, "owner"),
        ({"metadata": {"finalizers": ["example.io/mine"]}}, "metadata.finalizers"),
        ({"metadata": {"finalizers": None}}, "metadata.finalizers"),
        ({"spec": {"suspendDispatching": True}}, "spec"),
        ({"spec": {"workload": {"manifests": []}}}, "spec"),
    ],
)
def test_an_agent_writes_the_status_of_its_works_and_nothing_else(
    api: Client, agent: Client, team: str, patch: dict[str, Any], field: str
) -> None:
    """A label or annotation that names another binding would keep that one, of another cluster, from going."""
    where = f"{works(f'{team}-a')}/held"
    api.post(works(f"{team}-a"), {**work("held"), "metadata": {"name": "held", "finalizers": [FINALIZER, "a.io/b"]}})
    before = api.get(where).document

    merged = agent.patch(where, patch)
    whole = {**before, "spec": {**before["spec"], **patch.get("spec", {})}}
    whole["metadata"] = {**before["metadata"], **patch.get("metadata", {})}
    replaced = agent.put(where, whole)

    for answer in (merged, replaced):
        assert answer.status == 422
        assert any(field in cause["field"] for cause in answer.document["details"]["causes"])
    assert api.get(where).document == before


def test_an_agent_applies_no_work_that_does_not_exist(api: Client, agent: Client, team: str) -> None:
    where = f"{works(f'{team}-a')}/applied"

    answer = agent.patch(where, work("applied"), "application/apply-patch+yaml", fieldManager="agent")

    assert answer.status == 403
    assert api.get(where).status == 404


def test_an_agent_frees_a_work_that_is_being_deleted_of_its_own_finalizer_alone(
    api: Client, agent: Client, team: str
) -> None:
    where = f"{works(f'{team}-a')}/going"
    api.post(works(f"{team}-a"), {**work("going"), "metadata": {"name": "going", "finalizers": [FINALIZER, "a.io/b"]}})
    assert agent.patch(where, {"metadata": {"finalizers": ["a.io/b"]}}).status == 422
    assert api.delete(where).status == 200

    assert agent.patch(where, {"metadata": {"finalizers": None}}).status == 422
    assert agent.patch(where, {"metadata": {"finalizers": ["a.io/b"]}}).status == 200
    api.patch(where, {"metadata": {"finalizers": None}})
    assert api.get(where).status == 404


def test_an_agent_puts_no_finalizer_on_its_lease(agent: Client, team: str) -> None:
    own = f"{team}-a"
    held = lease(own)
    held["metadata"]["finalizers"] = ["example.io/mine"]

    assert agent.post(LEASES, held).status == 422
    assert agent.post(LEASES, lease(own)).status == 201
    assert agent.put(f"{LEASES}/{own}", held).status == 422
    assert agent.patch(f"{LEASES}/{own}", {"spec": {"leaseDurationSeconds": 30}}).status == 200


@pytest.mark.parametrize("other", ["-b", "-a-not"])
def test_an_agent_may_act_for_no_other_cluster(api: Client, agent: Client, team: str, other: str) -> None:
    name = f"{team}{other}"
    api.post(LEASES, lease(name))
    before = api.get(f"{LEASES}/{name}").document

    refused = [
        agent.post(LEASES, lease(name)),
        agent.post(LEASES, {**lease(name), "metadata": {"generateName": team}}),
        agent.put(f"{LEASES}/{name}", lease(name)),
        agent.patch(f"{LEASES}/{name}", {"spec": {"renewTime": None}}),
        agent.get(f"{LEASES}/{name}"),
        agent.patch(f"{CLUSTERS}/{name}/status", {"status": {}}),
        agent.get(f"{CLUSTERS}/{name}"),
        agent.get(works(name)),
        agent.get(f"{works(name)}/one"),
        agent.patch(f"{works(name)}/one/status", {"status": {}}),
    ]

    assert {one.status for one in refused} == {403}
    assert {one.document["reason"] for one in refused} == {"Forbidden"}
    assert api.get(f"{LEASES}/{name}").document == before


def test_an_agent_does_nothing_else_to_its_own_cluster(agent: Client, team: str) -> None:
    own = f"{team}-a"
    agent.post(LEASES, lease(own))

    refused = [
        agent.patch(f"{CLUSTERS}/{own}", {"spec": {"taints": []}}),
        agent.delete(f"{CLUSTERS}/{own}"),
        agent.post(f"{CLUSTERS}/{own}/fence", {"reason": "me"}),
        agent.delete(f"{LEASES}/{own}"),
        agent.delete(LEASES),
        agent.post(works(own), work("two")),
        agent.delete(f"{works(own)}/one"),
        agent.delete(works(own)),
    ]

    assert {one.status for one in refused} == {403}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/secrets",
        "/api/v1/namespaces/karmada-cluster/secrets",
        "/apis/cluster.karmada.io/v1alpha1/clusters",
        LEASES,
        "/apis/work.karmada.io/v1alpha1/works",
        "/apis/work.karmada.io/v1alpha2/resourcebindings",
        "/apis/failover.lifeboat.io/v1alpha1/evictions",
        "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses",
        "/metrics",
        "/debug/controllers",
    ],
)
def test_an_agent_reads_nothing_of_others(agent: Client, path: str) -> None:
    assert agent.get(path).status == 403


def test_an_agent_writes_nowhere_else(agent: Client, namespace: str, team: str) -> None:
    assert agent.post(config_maps(namespace), config_map("one")).status == 403
    elsewhere = {**lease(f"{team}-a"), "metadata": {"name": f"{team}-a", "namespace": namespace}}
    assert agent.post(LEASES.replace("karmada-cluster", namespace), elsewhere).status == 403


def test_an_agent_learns_who_it_is_and_what_it_may(agent: Client, team: str) -> None:
    who = agent.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).document["status"]["userInfo"]
    may = agent.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})

    assert who["username"] == f"system:lifeboat:agent:{team}-a"
    assert "system:lifeboat:agents" in who["groups"]
    resources = [name for rule in may.document["status"]["resourceRules"] for name in rule["resources"]]
    assert {"leases", "clusters/status", "works"} <= set(resources)
    assert "*" not in resources


@pytest.mark.parametrize("skew", [timedelta(seconds=90), timedelta(seconds=-90), timedelta(hours=-6)])
def test_the_database_says_when_a_heartbeat_arrived(server: Server, agent: Client, team: str, skew: timedelta) -> None:
    own = f"{team}-a"
    (before,) = server.sql("SELECT clock_timestamp()")[0]
    made = agent.post(LEASES, lease(own, at=before + skew)).document
    again = lease(own, at=before + skew + timedelta(seconds=10))
    again["metadata"]["annotations"] = {RECEIVED: (before + timedelta(days=9)).isoformat()}
    renewed = agent.put(f"{LEASES}/{own}", again).document
    (after,) = server.sql("SELECT clock_timestamp()")[0]

    first, second = (datetime.fromisoformat(one["metadata"]["annotations"][RECEIVED]) for one in (made, renewed))
    assert before <= first < second <= after


def test_a_condition_turns_by_our_clock(server: Server, agent: Client, team: str) -> None:
    own, now = f"{team}-a", datetime.now(UTC)
    long_ago = (now - timedelta(hours=3)).isoformat(timespec="seconds")
    reported = {
        "type": "Ready",
        "status": "False",
        "reason": "ClusterNotReady",
        "message": "",
        "lastTransitionTime": long_ago,
    }

    written = agent.patch(f"{CLUSTERS}/{own}/status", {"status": {"conditions": [reported]}}).document

    (ready,) = written["status"]["conditions"]
    assert datetime.fromisoformat(ready["lastTransitionTime"]) >= now - timedelta(minutes=5)


def test_a_pull_member_joins_from_the_command_line_and_its_agent_is_let_in(server: Server, api: Client) -> None:
    reported = server.manage("join", "far-away", "--pull")
    again = server.manage("join", "far-away", "--pull")
    server.manage(
        "kubeconfig", "--server", "https://127.0.0.1", "--agent", "far-away", "--out", str(server.folder / "k")
    )
    user = yaml.safe_load((server.folder / "k").read_text())["users"][0]

    assert reported.startswith("far-away joined")
    assert again.startswith("far-away is already joined")
    assert api.get(f"{CLUSTERS}/far-away").document["spec"]["syncMode"] == "Pull"
    assert user["name"] == "system:lifeboat:agent:far-away"
    assert server.client(user["user"]["token"]).get(f"{CLUSTERS}/far-away").status == 200


def test_an_agents_token_ends_with_its_cluster_and_not_with_another_of_that_name(server: Server, api: Client) -> None:
    where = f"{CLUSTERS}/brief"

    def gone() -> None:
        assert api.delete(where).status == 200
        api.patch(where, {"metadata": {"finalizers": None}})
        assert api.get(where).status == 404

    server.manage("join", "brief", "--pull")
    first = server.manage("token", "create", "--agent", "brief", "--name", "first")
    assert server.client(first).get(where).status == 200
    gone()
    assert server.client(first).get("/version").status == 401
    assert api.get("/version").status == 200

    server.manage("join", "brief", "--pull")
    second = server.manage("token", "create", "--agent", "brief", "--name", "second")
    assert [server.client(one).get(where).status for one in (first, second)] == [401, 200]
    assert server.sql("SELECT count(*) FROM api_token WHERE name = 'first'") == [(0,)]
    gone()
    assert "agent:brief" not in server.manage("token", "list")


def test_an_agent_has_no_way_in_before_its_cluster_is_joined(server: Server) -> None:
    with pytest.raises(AssertionError, match="there is no cluster nowhere: join it first"):
        server.manage("token", "create", "--agent", "nowhere")


def test_tokens_of_agents_made_before_end_with_the_cluster_there_is(server: Server, team: str, secret: str) -> None:
    (operation,) = import_module("apps.api.migrations.0003_clusters_of_tokens").Migration.operations
    query = f"SELECT cluster_uid FROM api_token t JOIN auth_user u ON u.id = t.user_id WHERE username LIKE '%{team}-a'"
    (before,) = server.sql(query)
    server.sql("UPDATE api_token SET cluster_uid = NULL RETURNING 1")

    for statement, _ in operation.sql:
        server.sql(statement.replace("%%", "%") + " RETURNING 1")

    assert server.sql(query) == [before]
    assert server.client(secret).get(f"{CLUSTERS}/{team}-a").status == 200


def test_a_cluster_that_is_leaving_is_not_joined_again(server: Server, api: Client) -> None:
    server.manage("join", "leaving", "--pull")
    assert api.delete(f"{CLUSTERS}/leaving").status == 200

    with pytest.raises(AssertionError, match="leaving is being deleted: wait until it is gone"):
        server.manage("join", "leaving", "--pull")

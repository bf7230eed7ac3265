"""What kubectl shows of fences, holds, queued evictions and templates without a policy."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_actions import BINDINGS, join
from tests.builders.documents import CLUSTERS, deployment, deployments, policies, policy
from tests.kubectl.test_kubectl import Kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_a_fence_is_a_column_and_an_event_and_its_end_is_reported(k: Kubectl, api: Client, server: Server) -> None:
    name = f"{k.namespace}-down"
    join(api, name, "False")
    api.post(f"{CLUSTERS}/{name}/fence", {"reason": "no power", "expiresInSeconds": 600})
    work(server, "cluster_status")

    assert re.search(rf"FENCED\n{name} .* by admin until \S+Z\s*$", k("get", "cluster", name, "-o", "wide"))
    assert "confirmed down by admin until" in k("events", "-n", "default", "--for", f"cluster/{name}")

    k("annotate", "cluster", name, "failover.lifeboat.io/fence-")
    work(server, "cluster_status")

    assert "by admin" not in k("get", "cluster", name, "-o", "wide")
    assert "ClusterFenceEnded" in k("events", "-n", "default", "--for", f"cluster/{name}")


def test_a_fence_is_not_made_by_annotating(k: Kubectl, api: Client) -> None:
    name = f"{k.namespace}-shut"
    join(api, name, "False")

    said = k("annotate", "cluster", name, 'failover.lifeboat.io/fence={"by":"eve"}', code=1)

    assert "a fence is made with: lifeboat fence" in said


def test_a_template_shows_its_policy_and_says_when_none_selects_it(k: Kubectl, api: Client, server: Server) -> None:
    api.post(deployments(k.namespace), deployment("web"))
    api.post(policies(k.namespace), policy("web-everywhere"))
    work(server, "policies")
    assert re.search(r"SELECTOR\s+POLICY\n.*pp/web-everywhere", k("get", "deploy", "web", "-o", "wide"))
    assert "POLICY" not in k("get", "deploy", "web")

    k("delete", "pp", "web-everywhere", "--wait=false")
    work(server, "policies", "policy_release")

    assert re.search(r"app=web\s+<none>", k("get", "deploy", "web", "-o", "wide"))
    assert "no policy selects it any more" in k("describe", "deploy", "web")


def test_what_is_deleted_with_its_policy_in_an_outage_is_applied_again_and_placed(
    k: Kubectl, api: Client, server: Server
) -> None:
    lost, file = f"{k.namespace}-lost", k.file(deployment("web"), policy("web-everywhere"))
    join(api, lost, "True")
    k("apply", "-f", file)
    work(server, "policies")
    bindings = BINDINGS.format(k.namespace)
    placed = {"spec": {"clusters": [{"name": lost, "replicas": 1}]}}
    assert api.patch(f"{bindings}/web-deployment", placed).status == 200
    work(server, "works")
    status = {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}
    api.patch(f"{CLUSTERS}/{lost}/status", {"status": status})

    k("delete", "-f", file, "--wait=false")
    work(server, "policies", "works", "policy_release")
    assert api.get(f"{bindings}/web-deployment").document["metadata"].get("deletionTimestamp")
    assert api.get(policies(k.namespace, "web-everywhere")).status == 404
    k("apply", "-f", file)

    uid = api.get(deployments(k.namespace, "web")).document["metadata"]["uid"]
    for _ in range(30):  # the old binding is looked at every few seconds
        work(server, "policies", "works", "policy_release")
        binding = api.get(f"{bindings}/web-deployment").document
        if binding.get("spec", {}).get("resource", {}).get("uid") == uid:
            break
    assert "deletionTimestamp" not in binding["metadata"]
    assert binding["spec"]["resource"]["uid"] == uid


def test_a_lost_cluster_does_not_become_schedulable_by_removing_its_taints(
    k: Kubectl, api: Client, server: Server
) -> None:
    name = f"{k.namespace}-dead"
    join(api, name, "False")
    work(server, "cluster_taints")
    assert "not-ready:NoSchedule" in k("get", "cluster", name)

    said = k("patch", "cluster", name, "--type=merge", "-p", '{"spec":{"taints":null}}')

    assert "Warning: spec.taints: cluster.karmada.io/not-ready:NoSchedule stays" in said
    assert "not-ready:NoSchedule" in k("get", "cluster", name)


def test_a_hold_shows_whether_it_still_holds_and_who_made_it(k: Kubectl) -> None:
    name, past = f"{k.namespace}-hold", datetime.now(UTC) - timedelta(minutes=20)
    hold = {
        "apiVersion": "failover.lifeboat.io/v1alpha1",
        "kind": "EvictionHold",
        "metadata": {"name": name},
        "spec": {"reason": "we release", "clusters": ["member1"]},
    }
    k("apply", "-f", k.file(hold))
    assert re.search(rf"{name}\s+cluster member1\s+we release\s+Open", k("get", "evictionhold", name))
    assert "admin holds evictions of cluster member1: we release" in k("describe", "evictionhold", name)

    hold["spec"] = {"reason": "we release", "clusters": ["member1"], "expiresAt": past.isoformat(timespec="seconds")}
    k("apply", "-f", k.file(hold))

    assert re.search(rf"{name}\s+cluster member1\s+we release\s+Expired 20m ago", k("get", "evictionhold", name))
    k("delete", "evictionhold", name)
    assert "admin removed this EvictionHold" in k("events", "-n", "default", "--for", f"evictionhold/{name}")

"""A dangerous write answers with its effects as a warning, under --dry-run=server too, whichever way it comes in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.apimachinery.names import FENCE_ANNOTATION
from tests.api.server import Answer, Client
from tests.api.test_actions import leave
from tests.builders.documents import CLUSTERS, cluster

OURS = "/apis/failover.lifeboat.io/v1alpha1"
POLICIES = "/apis/policy.karmada.io/v1alpha1"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
FREEZE = {"reason": "change freeze"}
CORDON = {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
Write = Callable[[Client, str, str], Answer]


@pytest.fixture
def placed(api: Client, namespace: str) -> str:
    """A cluster with the copy of a ConfigMap on it; its name."""
    name = f"{namespace}-a"
    assert api.post(CLUSTERS, cluster(name)).status == 201
    config = f"/api/v1/namespaces/{namespace}/configmaps"
    assert api.post(config, {"metadata": {"name": "web"}}).status == 201
    resource = {"apiVersion": "v1", "kind": "ConfigMap", "name": "web", "namespace": namespace}
    affinity = {"clusterAffinity": {"clusterNames": [name]}}
    spec = {"resource": resource, "clusters": [{"name": name}], "placement": affinity}
    assert api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-configmap"}, "spec": spec}).status == 201
    return name


def drain(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.post(f"{OURS}/drains", {"metadata": {"name": name}, "spec": {"cluster": name}}, **query)


def delete_workload(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"/api/v1/namespaces/{namespace}/configmaps/web", **query)


def delete_workloads(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"/api/v1/namespaces/{namespace}/configmaps", **query)


def delete_binding(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.delete(f"{BINDINGS.format(namespace)}/web-configmap", **query)


def unjoin(api: Client, name: str, namespace: str, **query: str) -> Answer:
    wish = {"metadata": {"annotations": {"failover.lifeboat.io/unjoin": "keep"}}}
    assert api.patch(f"{CLUSTERS}/{name}", wish).status == 200
    return api.delete(f"{CLUSTERS}/{name}", **query)


def hold(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.post(
        f"{OURS}/evictionholds", {"metadata": {"name": name}, "spec": {"clusters": [name], **FREEZE}}, **query
    )


def unhold(api: Client, name: str, namespace: str, **query: str) -> Answer:
    body = {"metadata": {"name": name}, "spec": {"namespaces": [namespace], **FREEZE}}
    assert api.post(f"{OURS}/evictionholds", body).status in (201, 409)
    return api.delete(f"{OURS}/evictionholds/{name}", **query)


def window(api: Client, name: str, namespace: str, **query: str) -> Answer:
    spec = {"clusters": [name], "from": "2098-01-01T22:00:00Z", "until": "2098-01-02T04:00:00Z", "reason": "kernels"}
    return api.post(f"{OURS}/maintenancewindows", {"metadata": {"name": name}, "spec": spec}, **query)


def cordon(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.patch(f"{CLUSTERS}/{name}", {"spec": {"taints": [CORDON]}}, **query)


def taint(api: Client, name: str, namespace: str, **query: str) -> Answer:
    return api.patch(f"{CLUSTERS}/{name}", {"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}}, **query)


def move(api: Client, name: str, namespace: str, **query: str) -> Answer:
    """A placement that a person changes; a revert does the same."""
    other = f"{name}-2"
    assert api.post(CLUSTERS, cluster(other)).status in (201, 409)
    path = f"{BINDINGS.format(namespace)}/web-configmap"
    return api.patch(path, {"spec": {"clusters": [{"name": other}]}}, **query)


def fence(api: Client, name: str, namespace: str, **query: str) -> Answer:
    down = {"conditions": [{"type": "Ready", "status": "False", "reason": "Test"}]}
    assert api.patch(f"{CLUSTERS}/{name}/status", {"status": down}).status == 200
    return api.post(f"{CLUSTERS}/{name}/fence", {"reason": "no power", "expiresInSeconds": 600}, **query)


def unfence(api: Client, name: str, namespace: str, **query: str) -> Answer:
    assert fence(api, name, namespace).status == 201
    return api.patch(f"{CLUSTERS}/{name}", {"metadata": {"annotations": {FENCE_ANNOTATION: None}}}, **query)


def drill(api: Client, name: str, namespace: str, **query: str) -> Answer:
    spec = {"mode": "Drain", "clusters": [name], **FREEZE}
    return api.post(f"{OURS}/drills", {"metadata": {"name": name}, "spec": spec}, **query)


def override(api: Client, name: str, namespace: str, **query: str) -> Answer:
    data = [{"path": "/data", "operator": "add", "value": {"lamp": "red"}}]
    spec = {"overrideRules": [{"overriders": {"plaintext": data}}]}
    policy = {"metadata": {"name": name}, "spec": spec}
    return api.post(f"{POLICIES}/namespaces/{namespace}/overridepolicies", policy, **query)


def delete_override(api: Client, name: str, namespace: str, **query: str) -> Answer:
    assert override(api, name, namespace).status in (201, 409)
    return api.delete(f"{POLICIES}/namespaces/{namespace}/overridepolicies/{name}", **query)


WRITES: dict[str, tuple[Any, str]] = {
    "a drain": (drain, "moves nothing, 1 without a place, 1 namespace"),
    "a deleted workload": (delete_workload, "removes the copies of 1, 1 namespace"),
    "deleted workloads": (delete_workloads, "removes the copies of 1, 1 namespace"),
    "a deleted binding": (delete_binding, "removes the copies of 1, 1 namespace"),
    "an unjoined cluster": (unjoin, "moves nothing, 1 without a place, 1 namespace"),
    "an override policy": (override, "changes 1 copy"),
    "a deleted override policy": (delete_override, "changes 1 copy"),
    "a hold": (hold, "no waiting eviction changes; later evictions from cluster {name} are held"),
    "a deleted hold": (unhold, "none, because no waiting eviction is held by it"),
    "a window": (
        window,
        "no waiting eviction changes; later evictions from cluster {name} are held from 2098-",
    ),
    "a cordon": (cordon, "moves nothing, 1 binding stays on cluster {name}, which takes no new copies"),
    "a taint": (taint, "moves nothing; the feature gate Failover is off, so no taint evicts copies"),
    "a placement by hand": (move, "moves 1, {namespace}/web-configmap from {name} to {name}-2"),
    "a fence": (fence, "nothing starts now, because no new copy waits for cluster {name} to be confirmed as down"),
    "the end of a fence": (
        unfence,
        "with purge mode Directly, new copies that replace those on cluster {name} wait again",
    ),
    "a drill": (drill, "moves nothing, 1 without a place, 1 namespace"),
}


@pytest.mark.parametrize("case", WRITES)
def test_the_effects_are_a_warning_of_the_write_and_of_its_dry_run(
    api: Client, placed: str, namespace: str, case: str
) -> None:
    write, sentence = WRITES[case]

    asked, done = write(api, placed, namespace, dryRun="All"), write(api, placed, namespace)

    for answer in (asked, done):
        assert answer.status in (200, 201), answer.body
        assert f"effects: {sentence.format(name=placed, namespace=namespace)}" in answer.headers.get("warning", "")


def test_a_gate_has_a_warning_whether_something_waits_or_not(api: Client) -> None:
    """Other tests of this server leave clusters with taints, so that opening the gate may move something."""
    where = f"{OURS}/failoverconfigurations"
    body = {"metadata": {"name": "default"}, "spec": {"featureGates": {"Failover": True}}}

    asked, done = api.post(where, body, dryRun="All"), api.post(where, body)
    removed = api.delete(f"{where}/default")

    for answer in (asked, done, removed):
        assert answer.status in (200, 201), answer.body
        assert "effects: " in answer.headers["warning"]


def test_a_revert_says_which_placement_comes_back(api: Client, namespace: str) -> None:
    url = leave(api, namespace)

    asked, done = (api.post(f"{url}/revert", {}, **query) for query in ({"dryRun": "All"}, {}))

    for answer in (asked, done):
        assert answer.status == 201, answer.body
        moved = f"effects: moves 1, {namespace}/web-deployment from {namespace}-b (2) to {namespace}-a (2)"
        assert moved in answer.headers["warning"]


def test_a_write_without_effects_has_no_warning(api: Client, namespace: str) -> None:
    done = [
        api.post(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "free"}}),
        api.delete(f"/api/v1/namespaces/{namespace}/configmaps/free"),
    ]

    assert ["effects" in answer.headers.get("warning", "") for answer in done] == [False, False]


def test_a_dry_run_of_a_policy_that_moves_nothing_is_answered(api: Client, namespace: str) -> None:
    where = f"{POLICIES}/namespaces/{namespace}/propagationpolicies"
    selector = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}
    policy = {"metadata": {"name": "quiet"}, "spec": {"resourceSelectors": [selector], "placement": {}}}

    asked, done = api.post(where, policy, dryRun="All"), api.post(where, policy)

    assert (asked.status, done.status) == (201, 201)
    assert "effects: moves nothing" in asked.headers["warning"]
    assert "effects" not in done.headers.get("warning", "")

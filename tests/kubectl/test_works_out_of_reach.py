"""kubectl shows what a member had when it was last reached, and how long ago, as long as it cannot be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.api.test_actions import join
from tests.builders.documents import CLUSTERS
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl


def test_works_of_a_cluster_out_of_reach_are_last_known_in_lists_and_watches(
    kubectl: Path, server: Server, namespace: str, tmp_path: Path, api: Client
) -> None:
    lost, fine = f"{namespace}-lost", f"{namespace}-fine"
    for name in (lost, fine):
        join(api, name, "True")
        _apply(api, name)
    k = Kubectl(kubectl, server, f"karmada-es-{lost}", tmp_path)
    assert re.search(r"APPLIED\s+LAST-KNOWN\s+AGE\nweb\s+Deployment\s+web\s+True\s+\d+s", k("get", "works"))

    ready = {"type": "Ready", "status": "False", "reason": "ClusterNotReachable"}
    assert api.patch(f"{CLUSTERS}/{lost}/status", {"status": {"conditions": [ready]}}).status == 200

    last_known = r"web\s+Deployment\s+web\s+Unknown\s+True, \d+s ago\s+\d+s"
    assert re.search(last_known, k("get", "works"))
    assert re.search(last_known, k("get", "works", "web"))
    assert re.search(rf"karmada-es-{fine}\s+web\s+Deployment\s+web\s+True\s+\d+s", k("get", "works", "-A"))
    with k.start("get", "works", "-w", "--request-timeout=60s") as process:
        assert process.stdout is not None
        shown = [process.stdout.readline() for _ in range(2)]
        process.terminate()
    assert re.search(last_known, shown[1])


def _apply(api: Client, cluster: str) -> None:
    """Store a Work that the member has applied."""
    api.post("/api/v1/namespaces", {"metadata": {"name": f"karmada-es-{cluster}"}})
    works = f"/apis/work.karmada.io/v1alpha1/namespaces/karmada-es-{cluster}/works"
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}
    made = api.post(works, {"metadata": {"name": "web"}, "spec": {"workload": {"manifests": [manifest]}}})
    assert made.status == 201, made.document
    applied = {"type": "Applied", "status": "True", "reason": "AppliedSuccessful"}
    assert api.patch(f"{works}/web/status", {"status": {"conditions": [applied]}}).status == 200

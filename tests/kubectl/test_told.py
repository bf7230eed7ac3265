"""What kubectl shows of fences, holds, queued evictions and templates without a policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.api.builders import CLUSTERS
from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_actions import join
from tests.kubectl.test_kubectl import Kubectl


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_a_fence_is_a_column_and_an_event_and_its_end_is_told(k: Kubectl, api: Client, server: Server) -> None:
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

    assert "a fence is made with POST" in said

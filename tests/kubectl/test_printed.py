"""Manifests that documents print are applied twice with the real kubectl: created, then unchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.server import Server
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl

PRINTED = list(yaml.safe_load_all((Path(__file__).parent / "printed.yaml").read_text()))


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path) -> Kubectl:
    return Kubectl(kubectl, server, namespace, tmp_path)


def test_printed_manifests_are_created_and_then_unchanged(k: Kubectl) -> None:
    path = k.file(*(_here(one, k.namespace) for one in PRINTED))

    said = [_done(k("apply", "-f", path)) for _ in range(2)]

    k("delete", "-f", path, "--wait=false")
    assert set(said[0].values()) == {"created"}, said[0]
    assert set(said[1].values()) == {"unchanged"}, said[1]
    assert len(said[0]) == len(PRINTED)


def test_printed_manifests_applied_server_side_twice_keep_their_versions(k: Kubectl) -> None:
    path = k.file(*(_here(one, f"{k.namespace}-ssa") for one in PRINTED))
    version = "jsonpath={range .items[*]}{.metadata.name}={.metadata.resourceVersion} {end}"

    said = [k("apply", "--server-side", "-f", path, "-o", version) for _ in range(2)]

    k("delete", "-f", path, "--wait=false")
    versions = [{word for word in text.split() if "=" in word} for text in said]
    assert versions[0] == versions[1]
    assert len(versions[0]) == len(PRINTED)


def _done(said: str) -> dict[str, str]:
    """Return what kubectl says it did with each object, without its warnings."""
    lines = (line.rpartition(" ") for line in said.splitlines() if not line.startswith("Warning:"))
    return {name: done for name, _, done in lines}


def _here(document: Any, suffix: str) -> Any:
    """Return a manifest with names of its own where they are those of the whole fleet, and in the test's namespace."""
    if "namespace" in (document["spec"].get("resourceSelectors") or [{}])[0]:
        selector = {**document["spec"]["resourceSelectors"][0], "namespace": suffix.removesuffix("-ssa")}
        return {**document, "spec": {**document["spec"], "resourceSelectors": [selector]}}
    if document["kind"] in ("Cluster", "ClusterTaintPolicy"):
        return {**document, "metadata": {"name": f"{document['metadata']['name']}-{suffix}"}}
    return document

"""The kubectl line in a refusal of the browsable API can be pasted into a shell, and does what the page asked for."""

from __future__ import annotations

import os
import re
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.api.server import Client, Server
from tests.command.test_acts import HOLDS

BASH = "/bin/bash"


def line_of(api: Client, method: str, path: str, body: Any = None) -> str:
    """Return the kubectl line with which the page of a write refuses it without a reason."""
    refused = api.ask(method, path, body, accept="text/html")
    assert refused.status == 422, refused.body
    found = re.search(r"the same with kubectl: (.*?)</p>", refused.body.decode())
    assert found is not None, refused.body
    return unescape(found[1])


def pasted(line: str, server: Server, kubectl: Path) -> None:
    """Run a line in a shell with this kubectl. Fails if the line does."""
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
    environment["PATH"] = f"{kubectl.parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run([BASH, "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (line, done.stderr)


@pytest.mark.kubectl
def test_the_line_that_switches_failover_on_needs_no_object(api: Client, server: Server, kubectl: Path) -> None:
    configuration = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations/default"
    api.delete(configuration)
    fleet = api.get("/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet").document
    (off,) = (one for one in fleet["status"]["attention"] if one["what"] == "GateOff")
    try:
        pasted(off["command"], server, kubectl)
        assert api.get(configuration).document["spec"]["featureGates"] == {"Failover": True}
    finally:
        api.delete(configuration)


@pytest.mark.kubectl
def test_the_line_of_a_new_an_edited_and_a_deleted_object_does_the_same(
    api: Client, server: Server, kubectl: Path, namespace: str
) -> None:
    spec = {"namespaces": [namespace], "reason": "it's a storm", "who": "me"}
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "EvictionHold", "metadata": {"name": namespace}}
    path = f"{HOLDS}/{namespace}"

    def run(line: str) -> None:
        pasted(line, server, kubectl)

    run(line_of(api, "POST", HOLDS, {**head, "spec": spec}))
    assert api.get(path).document["spec"]["reason"] == "it's a storm"
    run(line_of(api, "PUT", path, {**head, "spec": {**spec, "reason": "it is over"}}))
    assert api.get(path).document["spec"]["reason"] == "it is over"
    run(line_of(api, "DELETE", path))
    assert api.get(path).status == 404

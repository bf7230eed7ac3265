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
from tests.processes import PROJECT

BASH = "/bin/bash"
DOCS = PROJECT / "docs"


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


def shown_line(api: Client, path: str) -> str:
    """Return the kubectl line at the foot of a page of the console."""
    page = api.ask("GET", path, None, accept="text/html")
    found = re.search(r'<code id="kubectl">(.*?)</code>', page.body.decode())
    assert found is not None, page.body
    return unescape(found[1])


@pytest.mark.kubectl
def test_the_lines_of_rates_and_gate_change_nothing_else(api: Client, server: Server, kubectl: Path) -> None:
    """kubectl apply removes what its field manager has set before and does not set now. An operator who pasted the line
    of the gate, and then that of the rates, had switched failover off again: all queued evictions were dropped."""
    path = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations/default"
    api.delete(path)
    lines = [shown_line(api, f"/queue/{page}") for page in ("gate/on", "rates?rate=2&secondary=0.5", "gate/off")]
    rates = {"resourceEvictionRate": 2, "secondaryResourceEvictionRate": 0.5}
    try:
        for line, gate in zip(lines, (True, True, False), strict=True):
            pasted(line, server, kubectl)
            spec = api.get(path).document["spec"]
            assert spec["featureGates"] == {"Failover": gate}, line
        assert spec == {**rates, "featureGates": {"Failover": False}}
        api.patch(path, {"spec": {"featureGates": {"Failover": True}}})
        stop = re.search(r"kubectl apply .*failover-off\.yaml$", (DOCS / "failover.md").read_text(), re.MULTILINE)
        assert stop is not None
        pasted(f"cd {DOCS.parent} && {stop[0]}", server, kubectl)
        assert api.get(path).document["spec"] == {**rates, "featureGates": {"Failover": False}}
    finally:
        api.delete(path)


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

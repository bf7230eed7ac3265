"""`make picture`: takes the picture of Situation in an outage that README.md shows, from real processes.

It starts a stack of its own with three simulated clusters, places workloads, takes member1 down, and waits until some
workloads have moved, some are queued and one is held. It needs Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from playwright.sync_api import Page, sync_playwright

from apps.development.supervise.services import DATABASE, REDIS

PROJECT = Path(__file__).resolve().parents[1]
FOLDER = PROJECT / ".lifeboat" / "picture"
PICTURE = PROJECT / "docs" / "images" / "situation.png"
WORKLOADS, MOVED = 36, 14
RATE = 1.0  # evictions per second
WITHIN = 120.0  # seconds for each step
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CONFIGURATIONS = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations"


def main() -> None:
    """Start a stack, make an outage, and write the picture."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium is not installed (chromium or google-chrome not in PATH)")
    _supervise("clean")
    _supervise("up")
    try:
        facts = json.loads((FOLDER / "run" / "ready.json").read_text())
        _fill(facts["api"])
        with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
            context = playwright.chromium.launch_persistent_context(
                profile, executable_path=browser, args=["--no-sandbox"], viewport={"width": 1280, "height": 800}
            )
            page = context.new_page()
            _log_in(page, facts["api"])
            _supervise("fault", "--member", "member1", "--fault", "down")
            _await("workloads to move", lambda: _moved(facts["api"]) >= MOVED)
            page.wait_for_function("document.getElementById('sentence').textContent.includes('held')")
            page.screenshot(path=PICTURE)
            context.close()
    finally:
        _supervise("clean")
    print(f"wrote {PICTURE.relative_to(PROJECT)}")


def _supervise(verb: str, *arguments: str) -> None:
    own = {name: value for name, value in os.environ.items() if name not in (DATABASE, REDIS)}
    command = [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(FOLDER), *arguments]
    subprocess.run(command, cwd=PROJECT, env=own, check=True)


def _fill(api: str) -> None:
    """Create workloads that begin on member1, and one that may run nowhere else."""
    configuration = _object("failover.lifeboat.io/v1alpha1", "FailoverConfiguration", "default")
    _ask(api, "POST", CONFIGURATIONS, configuration | {"spec": {"resourceEvictionRate": RATE}})
    _ask(api, "POST", POLICIES, _policy("web", ["member1", "member2", "member3"]))
    _ask(api, "POST", POLICIES, _policy("ledger", ["member1"]))
    for number in range(WORKLOADS):
        _ask(api, "POST", DEPLOYMENTS, _deployment(f"web-{number:02}", "web"))
    _ask(api, "POST", DEPLOYMENTS, _deployment("ledger", "ledger"))
    _await("all workloads to be placed", lambda: _status(api).get("workloads", 0) > WORKLOADS)
    _await("their readiness to be known", lambda: _status(api).get("readiness", {}).get("workloads", 0) > WORKLOADS)


def _object(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


def _policy(name: str, clusters: list[str]) -> dict[str, Any]:
    placement = {
        "clusterAffinity": {"clusterNames": clusters},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    }
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": name}}}]
    spec = {"resourceSelectors": selectors, "placement": placement}
    return _object("policy.karmada.io/v1alpha1", "PropagationPolicy", name) | {"spec": spec}


def _deployment(name: str, app: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}}]}
    template = {"metadata": {"labels": {"name": name}}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": {"name": name}}, "template": template}
    made = _object("apps/v1", "Deployment", name)
    return made | {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}


def _status(api: str) -> dict[str, Any]:
    found: dict[str, Any] = _ask(api, "GET", "/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet")["status"]
    return found


def _moved(api: str) -> int:
    return int(_status(api)["queue"].get("moved", 0))


def _ask(api: str, method: str, path: str, body: Any = None) -> Any:
    token = yaml.safe_load((FOLDER / "kubeconfig").read_text())["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(api + path, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{method} {path}: HTTP {error.code} {error.read()[:500].decode()}") from error


def _log_in(page: Page, api: str) -> None:
    page.goto(api)
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill((FOLDER / "secrets" / "admin").read_text().strip())
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#sentence")


def _await(what: str, holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + WITHIN
    while not holds():
        if time.monotonic() > ends:
            raise SystemExit(f"waited {WITHIN:g} s for {what}; logs: {FOLDER / 'logs'}")
        time.sleep(0.5)  # nothing reports when the figures change


if __name__ == "__main__":
    main()

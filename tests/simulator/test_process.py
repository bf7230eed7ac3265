"""The simulator as a process: its command line, its files, and the real kubectl against it."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from apps.simulator.members import FleetProcess, ask, start_fleet_process

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetProcess]:
    """Two members over TLS, whose pods are ready at once."""
    folder = tmp_path_factory.mktemp("members")
    with start_fleet_process(folder, members=["member1", "member2"], ready_after=0.1, tls=True) as running:
        yield running


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "apps.simulator", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_its_files_are_for_their_owner_only_and_name_every_member(fleet: FleetProcess) -> None:
    for name in ("member1.kubeconfig", "member2.kubeconfig", "members.json"):
        assert stat.S_IMODE((fleet.directory / name).stat().st_mode) == 0o600
    config = yaml.safe_load((fleet.directory / "member1.kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == fleet.member("member1")["url"]
    assert config["clusters"][0]["cluster"]["certificate-authority-data"]
    assert config["users"][0]["user"]["token"] == fleet.member("member1")["token"]


@pytest.mark.parametrize("written", [("member2", "unhealthy"), ("--member", "member2", "--fault", "unhealthy")])
def test_a_fault_is_ordered_by_command(fleet: FleetProcess, written: tuple[str, ...]) -> None:
    ordered = command("fault", "--dir", str(fleet.directory), *written)
    assert (ordered.returncode, ordered.stdout) == (0, "member2: unhealthy\n")
    assert ask(fleet.known["control"], "GET", "/members/member2")["fault"] == "unhealthy"

    ended = command("fault", "--dir", str(fleet.directory), "member2", "none")
    assert (ended.returncode, ended.stdout) == (0, "member2: none\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("fault", "member9", "down"), 1, "there is no member 'member9'"),
        (("fault", "member1", "gone"), 2, "invalid choice"),
        (("fault",), 2, "which member?"),
        (("fault", "member1"), 2, "which fault?"),
    ],
)
def test_a_command_that_makes_no_sense_says_why(
    fleet: FleetProcess, arguments: tuple[str, ...], code: int, words: str
) -> None:
    refused = command(*arguments, "--dir", str(fleet.directory))

    assert (refused.returncode, words in refused.stderr) == (code, True), refused.stderr


def test_without_a_run_the_command_says_how_to_start_one(tmp_path: Path) -> None:
    refused = command("fault", "member1", "down", "--dir", str(tmp_path))

    assert (refused.returncode, "serve --dir" in refused.stderr) == (1, True)


def test_a_restart_keeps_ports_and_tokens_and_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    with start_fleet_process(tmp_path, members=["a"]) as first:
        before = first.member("a")
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait(60) == 0
    with start_fleet_process(tmp_path, members=["a", "b"]) as second:
        assert second.member("a") == before
        with urllib.request.urlopen(before["url"] + "/readyz", timeout=60) as response:
            assert response.status == 200
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(before["url"] + "/readyz", timeout=60)


class Kubectl:
    """The real kubectl against one member."""

    def __init__(self, program: Path, kubeconfig: Path, cache: Path) -> None:
        self.command = [str(program), "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache)]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it and return what happened."""
        return subprocess.run(
            [*self.command, *arguments], input=stdin, capture_output=True, text=True, timeout=300, check=False
        )

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """Run it, which has to work, and return what it printed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def member1(fleet: FleetProcess, kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(kubectl, fleet.kubeconfig("member1"), tmp_path_factory.mktemp("cache"))


def manifest(name: str, *, namespace: str = "default", replicas: int = 2) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "web:1", "ports": [{"containerPort": 80}]}]},
                },
            },
        }
    )


@pytest.mark.kubectl
def test_kubectl_applies_rolls_out_shows_and_deletes(member1: Kubectl) -> None:
    assert member1("create", "ns", "shop") == "namespace/shop created\n"
    text = manifest("web", namespace="shop")
    assert member1("apply", "-f", "-", stdin=text) == "deployment.apps/web created\n"
    assert member1("apply", "-f", "-", stdin=text) == "deployment.apps/web unchanged\n"
    assert "successfully rolled out" in member1("rollout", "status", "deploy/web", "-n", "shop", "--timeout=60s")
    member1("wait", "--for=condition=Available", "deploy/web", "-n", "shop", "--timeout=60s")

    shown = member1("get", "deploy", "-n", "shop").splitlines()
    assert shown[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert shown[1].split()[:4] == ["web", "2/2", "2", "2"]
    stored = yaml.safe_load(member1("get", "deploy", "web", "-n", "shop", "-o", "yaml"))
    assert stored["status"]["readyReplicas"] == 2

    assert "configured" in member1("apply", "-f", "-", stdin=manifest("web", namespace="shop", replicas=1))
    assert 'deployment.apps "web" deleted' in member1("delete", "deploy", "web", "-n", "shop", "--cascade=foreground")
    assert 'namespace "shop" deleted' in member1("delete", "ns", "shop", "--timeout=60s")
    assert "No resources found" in member1.run("get", "pods", "-n", "shop").stderr


@pytest.mark.kubectl
def test_kubectl_applies_server_side_and_reports_conflicts(member1: Kubectl) -> None:
    server_side = ("apply", "--server-side", "-f", "-")
    assert member1(*server_side, stdin=manifest("owned")) == "deployment.apps/owned serverside-applied\n"

    refused = member1.run(*server_side, "--field-manager=bob", stdin=manifest("owned", replicas=5))
    assert refused.returncode != 0
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.replicas' in refused.stderr

    member1(*server_side, "--field-manager=bob", "--force-conflicts", stdin=manifest("owned", replicas=5))
    assert member1("get", "deploy", "owned", "-o", "jsonpath={.spec.replicas}") == "5"
    assert (
        member1.run(
            "diff", "--server-side", "--field-manager=bob", "-f", "-", stdin=manifest("owned", replicas=5)
        ).returncode
        == 0
    )


@pytest.mark.kubectl
def test_kubectl_creates_with_protobuf_patches_and_scales(member1: Kubectl) -> None:
    member1("create", "deployment", "made", "--image=web:1", "--replicas=2")
    member1("set", "image", "deploy/made", "web=web:2")
    member1("scale", "deploy/made", "--replicas=3")
    member1("label", "deploy/made", "tier=front")
    member1("patch", "deploy", "made", "--type=json", "-p", '[{"op": "replace", "path": "/spec/replicas", "value": 4}]')

    container = "{.spec.template.spec.containers[0].image}"
    columns = "jsonpath={.spec.replicas} " + container + " {.metadata.labels.tier}"
    shown = member1("get", "deploy", "made", "-o", columns)
    assert shown == "4 web:2 front"
    assert "already exists" in member1.run("create", "deployment", "made", "--image=web:1").stderr


@pytest.mark.kubectl
def test_kubectl_watches(member1: Kubectl) -> None:
    watching = subprocess.Popen(
        [*member1.command, "get", "cm", "-w", "--output-watch-events"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None
        member1("create", "cm", "first")
        assert watching.stdout.readline().split() == ["EVENT", "NAME", "DATA", "AGE"]
        assert watching.stdout.readline().split()[:2] == ["ADDED", "first"]
        member1("delete", "cm", "first")
        assert watching.stdout.readline().split()[:2] == ["DELETED", "first"]
    finally:
        watching.terminate()
        watching.wait(60)
        if watching.stdout:
            watching.stdout.close()


@pytest.mark.kubectl
def test_kubectl_discovers_and_explains(member1: Kubectl) -> None:
    assert "deployments" in member1("api-resources", "--api-group=apps", "-o", "name")
    assert "FIELD: replicas <integer>" in member1("explain", "deployment.spec.replicas")
    assert member1("auth", "can-i", "create", "pods") == "yes\n"
    refused = member1.run("get", "cm", "missing")
    assert 'configmaps "missing" not found' in refused.stderr
    misspelt = member1.run("apply", "-f", "-", stdin=manifest("bad").replace("replicas", "replica"))
    assert 'unknown field "spec.replica"' in misspelt.stderr

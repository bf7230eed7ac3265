"""What would happen, from the command: whatif, the preview before an act, and drills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from apps.command.preview import concerned
from apps.command.run import LARGE
from apps.objects.confirmation import THRESHOLD
from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_failback import join
from tests.builders.documents import policy
from tests.command.conftest import Lifeboat
from tests.command.test_moving import SECONDS, started

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"


@pytest.fixture
def placed(api: Client, server: Server, namespace: str) -> str:
    """A cluster with a binding on it that fits nowhere else; its name."""
    name = join(api, server, f"{namespace}-a")
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": namespace}
    affinity = {"clusterAffinity": {"clusterNames": [name]}}
    spec = {"resource": resource, "replicas": 2, "clusters": [{"name": name, "replicas": 2}], "placement": affinity}
    assert api.post(BINDINGS.format(namespace), {"metadata": {"name": "web-deployment"}, "spec": spec}).status == 201
    return name


def test_what_if_names_what_has_no_place(lifeboat: Lifeboat, placed: str, namespace: str) -> None:
    text = lifeboat("whatif", "--drain", placed, "--rate", "2")
    document = json.loads(lifeboat("whatif", "--drain", placed, "-o", "json").stdout)

    assert text.exit_code == 0, text.stderr
    lines = text.stdout.splitlines()
    assert lines[0].startswith("Moves nothing, 1 ")
    (line,) = [line for line in lines if f"Deployment {namespace}/web" in line]
    assert f"{placed} (2)" in line
    assert document["status"]["phase"] == "Finished"


def test_what_if_takes_any_change_and_refuses_what_is_none(
    lifeboat: Lifeboat, placed: str, namespace: str, tmp_path: Path
) -> None:
    edited, other = tmp_path / "policy.yaml", tmp_path / "other.yaml"
    edited.write_text(yaml.safe_dump(policy("p", metadata={"namespace": namespace})))
    other.write_text("kind: Deployment\n")
    every = ("--lost", placed, "--cordon", placed, "--taint", f"{placed}:gone:NoExecute")

    done = lifeboat("whatif", *every, "-f", str(edited))

    assert done.exit_code == 0, done.stderr
    assert lifeboat("whatif", placed).stdout == lifeboat("whatif", "--lost", placed).stdout
    assert (lifeboat("whatif").exit_code, lifeboat("whatif", "-f", str(other)).exit_code) == (2, 2)
    assert lifeboat("whatif", "--taint", "gone:NoExecute").exit_code == 2
    assert lifeboat("whatif", "-f", str(tmp_path / "none")).exit_code == 4


@pytest.mark.parametrize(
    "wrong", [("none",), ("--region", "mars"), ("--provider", "none"), ("--drain", "none"), ("--failback", "none")]
)
def test_what_if_about_what_does_not_exist_is_refused(lifeboat: Lifeboat, placed: str, wrong: tuple[str, ...]) -> None:
    done = lifeboat("whatif", "--cordon", placed, *wrong)

    assert (done.exit_code, done.stdout.startswith("Refused: there is no cluster ")) == (3, True)
    assert wrong[-1] in done.stderr


@pytest.mark.parametrize(
    "act", [("drain",), ("taint", "gone:NoExecute"), ("unjoin", "--delete-copies"), ("drill", "--real")]
)
def test_an_act_shows_what_it_would_do_before_it_asks(lifeboat: Lifeboat, placed: str, act: tuple[str, ...]) -> None:
    verb, *options = act

    asked = lifeboat(verb, placed, *options)

    assert asked.exit_code == 7, asked.stderr
    said = [line for line in asked.stderr.splitlines() if line.startswith(("Moves ", "Removes ", "Effects: "))]
    assert len(said) == 1, asked.stderr


def test_a_drill_ends_with_its_report_and_fails_the_command_if_it_failed(
    lifeboat: Lifeboat, server: Server, placed: str, namespace: str
) -> None:
    following = started(server, "drill", placed, "-n", namespace, "--within", "10m", "--reason", "October")
    assert following.stderr is not None
    assert "Waiting" in following.stderr.readline()
    work(server, "drills")
    out, err = following.communicate(timeout=SECONDS)

    assert following.returncode == 1, out + err
    first, *rest = out.splitlines()
    assert "Failed: 0 of 1 workloads would leave" in first
    (row,) = [line.split() for line in rest if line.startswith("maxWithoutPlace")]
    assert row[1] == "failed"
    assert f"work.karmada.io/ResourceBinding:{namespace}/web-deployment" in out
    assert lifeboat("drill", f"{namespace}-none").exit_code == 3
    assert lifeboat("drill", placed, "--dry-run").exit_code == 0


def test_resume_ends_the_only_pause_of_the_fleet(lifeboat: Lifeboat) -> None:
    none = lifeboat("resume", "--yes")
    assert (none.exit_code, none.stdout) == (0, "the fleet is not paused: nothing to resume\n"), none.stderr
    assert lifeboat("pause", "--reason", "storm").exit_code == 0
    assert lifeboat("pause", "--reason", "more", "--name", "second").exit_code == 0

    two = lifeboat("resume", "--yes")
    second = lifeboat("resume", "second", "--yes")
    only = lifeboat("resume", "--yes")

    assert (two.exit_code, "2 pauses hold the fleet" in two.stderr) == (2, True)
    assert (second.exit_code, only.exit_code) == (0, 0), only.stderr
    assert lifeboat("resume", "--yes").exit_code == 0


def test_the_workloads_that_an_act_concerns_are_counted_once() -> None:
    effects = {
        "moves": [{"binding": "a/web"}, {"binding": "a/db"}],
        "removed": [{"binding": "a/web"}],
        "placed": [{"binding": "a/new"}],
        "stays": [{"binding": "a/other"}],
        "hidden": {"moves": 3, "stays": 5},
    }
    assert concerned(effects) == 5
    assert concerned({"moves": [], "hidden": {}}) == 0


def test_the_command_and_the_pages_call_the_same_acts_large() -> None:
    assert LARGE == THRESHOLD

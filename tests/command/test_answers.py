"""Answers from the command: explain, readiness, record, doctor, version, and errors of the connection."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from apps.command import reports
from apps.command.fleet import eviction_rate
from apps.command.kubectl_completion import answer
from tests.api.controllers import work
from tests.api.roles import bind as bind_role
from tests.api.roles import user, wait_until_allowed
from tests.api.server import Client, Server
from tests.api.test_failback import join
from tests.api.test_placement import bind, keep
from tests.builders.documents import CLUSTERS, cluster
from tests.command.conftest import Lifeboat

RECORD = {
    "metadata": {"name": "web-deployment.7", "namespace": "shop"},
    "status": {
        "resource": {"kind": "Deployment", "namespace": "shop", "name": "web"},
        "state": "Finished",
        "reason": "TaintUntolerated",
        "left": [{"name": "member1", "replicas": 2}],
        "after": [{"name": "member2", "replicas": 2}],
        "durations": {"total": 42.4},
        "steps": [
            {"at": "2026-03-14T02:36:26Z", "seconds": 0.0, "what": "Seen", "cluster": "member1", "message": "a|b"},
            {"at": "2026-03-14T02:37:08Z", "seconds": 42.4, "what": "Cleared", "by": "graceful_eviction"},
        ],
    },
}


def test_explain_takes_the_name_of_a_workload_as_kubectl_does(
    lifeboat: Lifeboat, server: Server, api: Client, namespace: str
) -> None:
    bind(api, namespace, "web-deployment")
    keep(server, namespace, name="web-deployment")

    by_type = [
        lifeboat("explain", f"{one}/web", "-n", namespace) for one in ("deployment", "deploy", "Deployments.apps")
    ]
    by_name = lifeboat("explain", "web-deployment", "-n", namespace)
    document = json.loads(lifeboat("explain", "deploy/web", "-n", namespace, "-o", "json").stdout)

    assert {one.stdout for one in by_type} == {by_name.stdout}, [one.stderr for one in by_type]
    assert "  member2: TaintToleration refuses it: taint gpu:NoSchedule is not tolerated" in by_name.stdout.splitlines()
    assert document["kind"] == "PlacementExplanation"


def test_what_does_not_exist_has_an_exit_code_of_its_own(lifeboat: Lifeboat, namespace: str) -> None:
    workload = lifeboat("explain", "deployment/missing", "-n", namespace)
    kind = lifeboat("explain", "spaceship/web", "-n", namespace)

    assert (workload.exit_code, "no policy claims it" in workload.stderr) == (4, True)
    assert (kind.exit_code, 'the API serves no kind "spaceship"' in kind.stderr) == (4, True)


def test_what_does_not_exist_is_not_forbidden_to_a_user_of_one_namespace(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str, tmp_path: Path
) -> None:
    """A name without a kind may be that of a cluster-scoped object, which this user may not read."""
    reader = user(server, namespace)
    bind_role(api, namespace, to={"kind": "User", "name": namespace}, roles=("view",), namespace=namespace)
    wait_until_allowed(reader, "get", "resourcebindings", group="work.karmada.io", namespace=namespace)
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": server.manage("token", "create", "--user", namespace)}
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))

    binding = lifeboat("explain", "web-deploymnt", "-n", namespace, "--kubeconfig", str(own))
    eviction = lifeboat("hold", "web.member1", "-n", namespace, "--reason", "x", "--kubeconfig", str(own))
    elsewhere = lifeboat("explain", "web-deployment", "-n", "default", "--kubeconfig", str(own))

    assert (binding.exit_code, "no policy claims it" in binding.stderr) == (4, True), binding.stderr
    assert (eviction.exit_code, "no eviction web.member1 in" in eviction.stderr) == (4, True), eviction.stderr
    assert (elsewhere.exit_code, "forbidden" in elsewhere.stderr) == (5, True), elsewhere.stderr
    assert "the role lifeboat:viewer reads the fleet" in elsewhere.stderr
    assert "name it with -n" in elsewhere.stderr


def test_readiness_names_obstacles_and_remedies_and_fails_if_there_are_any(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    bind(api, namespace, "web-deployment")
    work(server, "readiness", refs=[f"work.karmada.io/ResourceBinding:{namespace}/web-deployment"])

    one = lifeboat("readiness", "deployment/web", "-n", namespace)
    fleet = lifeboat("readiness")

    assert (one.exit_code, fleet.exit_code) == (1, 1)
    assert one.stdout.startswith(f"{namespace}/web-deployment: would not fail over.")
    assert "Blocks: GateOff" in one.stdout
    assert "what to do: " in one.stdout
    assert "GateOff" in fleet.stdout
    assert "would fail over." in fleet.stdout.splitlines()[0]


def test_records_of_a_namespace_without_failovers_are_none(lifeboat: Lifeboat, api: Client, namespace: str) -> None:
    bind(api, namespace, "web-deployment")

    listed = lifeboat("record", "-n", namespace)
    named = lifeboat("record", "deployment/web", "-n", namespace)
    markdown = lifeboat("record", "-n", namespace, "-o", "markdown", "--since", "2h")

    assert (listed.exit_code, listed.stderr) == (0, "none\n")
    assert (named.exit_code, "no failover of" in named.stderr) == (4, True)
    assert markdown.stdout.startswith("# Failover report")
    assert "No failover is on record" in markdown.stdout
    assert lifeboat("record", "-A", "deployment/web").exit_code == 2


def test_an_incident_report_has_a_summary_and_every_step() -> None:
    report = reports.markdown([RECORD], server="https://lifeboat", now=reports.began(RECORD))  # type: ignore[arg-type]

    lines = report.splitlines()
    assert "- Failovers: 1, of which 1 finished" in lines
    assert "- Clusters left: member1" in lines
    summary = "| Deployment shop/web | member1 | member2 | Finished | TaintUntolerated | 2026-03-14T02:36:26Z | 42s |"
    assert summary in lines
    assert "Deployment shop/web left member1 for member2 (TaintUntolerated), in 42s." in lines
    assert "| 2026-03-14T02:36:26Z | +0.0 s | Seen | member1 | a\\|b |  |" in lines


@pytest.mark.parametrize(
    ("in_force", "state", "said"),
    [
        pytest.param(("Normal", "0.5", ""), "ok", "", id="usual"),
        pytest.param(("Normal", "0", ""), "failed", "resourceEvictionRate is 0", id="a rate of 0"),
        pytest.param(("Secondary", "0.1", "6 of 10"), "Warns", "tier Secondary, 0.1/s: 6 of 10", id="slower"),
        pytest.param(("Secondary", "0", "6 of 10"), "failed", "secondaryResourceEvictionRate", id="Secondary, 0"),
        pytest.param(("Stopped", "0", "2 of 3"), "failed", "repair clusters", id="too many"),
        pytest.param(("Blind", "0", "all"), "failed", "repair clusters", id="blind"),
    ],
)
def test_doctor_fails_if_nothing_is_evicted_and_not_if_it_is_only_slower(
    in_force: tuple[str, str, str], state: str, said: str
) -> None:
    check = eviction_rate(*in_force)

    assert (check.state, said in f"{check.problem}; {check.remedy}") == (state, True), check


def test_doctor_finds_what_is_missing_and_says_what_to_do(lifeboat: Lifeboat) -> None:
    done = lifeboat("doctor")
    found = json.loads(lifeboat("doctor", "-o", "json").stdout)["checks"]

    assert done.exit_code == 1
    problems = {one["name"]: one for one in found if one["problem"]}
    assert {one["name"] for one in found} >= {"database", "migrations", "redis", "controllers", "queue"}
    assert {"members", "gate Failover"} <= set(problems)  # this server has no other process, and the gate is off
    assert any(name.startswith("workers ") for name in problems)
    assert all(one["remedy"] for one in problems.values())
    (gate,) = [line for line in done.stdout.splitlines() if line.startswith("gate Failover")]
    assert "featureGates" in gate


def test_the_version_of_command_and_server(lifeboat: Lifeboat) -> None:
    both, alone = lifeboat("version"), lifeboat("version", "--client", env={"KUBECONFIG": "/nowhere"})

    assert [line.partition(":")[0] for line in both.stdout.splitlines()] == ["client", "server"]
    assert alone.stdout == both.stdout.splitlines()[0] + "\n"


def put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the variables back afterwards that an answer sets."""
    for name in ("_LIFEBOAT_COMPLETE", "_TYPER_COMPLETE_ARGS", "_TYPER_COMPLETE_FISH_ACTION"):
        monkeypatch.setenv(name, "")


def test_kubectl_is_answered_with_names_of_clusters(
    server: Server, api: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.post(CLUSTERS, cluster(f"{namespace}-a")).status == 201
    put_back(monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))

    assert answer(["drain", namespace]) == f"{namespace}-a\n:4"


def test_names_are_completed_from_the_control_plane_that_the_line_names(
    api: Client, namespace: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current context may be another control plane, with clusters of the same names."""
    api.post(CLUSTERS, cluster(f"{namespace}-a"))
    config = yaml.safe_load(server.kubeconfig.read_text())
    away = {"name": "away", "cluster": {"server": "https://127.0.0.1:1"}}
    other = {"name": "other", "context": {**config["contexts"][0]["context"], "cluster": "away"}}
    config |= {"clusters": [*config["clusters"], away], "contexts": [*config["contexts"], other]}
    right, wrong = config["current-context"], {**config, "current-context": "other"}
    (file := tmp_path / "config").write_text(yaml.safe_dump(wrong))
    put_back(monkeypatch)
    monkeypatch.setenv("KUBECONFIG", str(file))

    found = [
        answer(["drain", "--context", right, namespace]),
        answer(["--context", right, "drain", namespace]),
        answer(["drain", "--kubeconfig", str(server.kubeconfig), namespace]),
        answer(["drain", namespace]),
    ]

    assert found == [*[f"{namespace}-a\n:4"] * 3, ":0"]


def test_completion_is_a_script_for_the_shell(lifeboat: Lifeboat) -> None:
    assert "complete -o default -F _lifeboat_completion lifeboat" in lifeboat("completion", "bash").stdout
    assert "compdef" in lifeboat("completion", "zsh").stdout
    assert lifeboat("completion", "tcsh").exit_code == 2


def test_every_way_not_to_reach_the_api_is_explained(lifeboat: Lifeboat, server: Server, tmp_path: Path) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())

    def changed(part: str, inner: str, **values: str) -> str:
        file = tmp_path / f"{part}.config"
        copy = yaml.safe_load(yaml.safe_dump(config))
        copy[part][0][inner] |= values
        file.write_text(yaml.safe_dump(copy))
        return str(file)

    away = lifeboat("clusters", "--kubeconfig", changed("clusters", "cluster", server="https://127.0.0.1:1"))
    denied = lifeboat("clusters", "--kubeconfig", changed("users", "user", token="wrong"))
    context = lifeboat("clusters", "--context", "other")
    nothing = lifeboat("clusters", "--kubeconfig", str(tmp_path / "none"))

    assert (away.exit_code, "cannot be reached" in away.stderr) == (6, True)
    assert (denied.exit_code, "manage.py token renew" in denied.stderr) == (5, True)
    assert (context.exit_code, "its contexts: lifeboat" in context.stderr) == (4, True), context.stderr
    assert (nothing.exit_code, "there is no kubeconfig" in nothing.stderr) == (4, True)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["clusters", "--no-such-option"], ["no-such-command"], ["queue", "--rate", "-1"]),
        *(["record", "--since", "99999999999d"], ["pause", "--for", "99999999999d", "--dry-run", "--reason", "a"]),
        *(["whatif", "--drain", "a", "--rate", "inf"], ["drain", "a", "--rate", "inf", "--dry-run"]),
    ],
)
def test_a_wrong_option_is_a_usage_error(lifeboat: Lifeboat, arguments: list[str]) -> None:
    assert lifeboat(*arguments).exit_code == 2


def test_status_is_a_sentence_with_what_needs_a_person_and_the_clusters(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a", ready="False")

    page = lifeboat("status", "-o", "wide")
    document = json.loads(lifeboat("status", "-o", "json").stdout)

    assert page.exit_code == 0, page.stderr
    lines = page.stdout.splitlines()
    in_words = re.compile(r"\d+ (?:s|min)")  # time passes between the two answers
    assert in_words.sub("", lines[0]) == in_words.sub("", document["status"]["sentence"])
    assert any(line.startswith("Queue: ") for line in lines)
    (row,) = [line.split() for line in lines if line.startswith(f"{name} ")]
    assert row[1] == "Joining"  # it was never Ready
    assert any(line.startswith("GateOff ") for line in lines)


def test_a_text_of_a_member_with_control_characters_is_shown_and_not_sent_to_the_terminal(
    lifeboat: Lifeboat, api: Client, namespace: str
) -> None:
    assert api.post(CLUSTERS, cluster(namespace)).status == 201
    status = {"kubernetesVersion": "v1.33\x1b[2J"}
    assert api.patch(f"{CLUSTERS}/{namespace}/status", {"status": status}).status == 200

    printed = lifeboat("clusters", "-o", "wide").stdout

    assert "v1.33\\u001b[2J" in printed
    assert api.delete(f"{CLUSTERS}/{namespace}").status in (200, 202)

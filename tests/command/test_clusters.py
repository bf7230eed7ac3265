"""Clusters from the command: listed, joined, tainted, fenced, unjoined."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import yaml

from apps.simulator.members import start_fleet_process
from tests.api.server import Client, Server
from tests.api.test_failback import join
from tests.api.test_unjoin import place
from tests.builders.documents import CLUSTERS, cluster
from tests.command.conftest import DO, Lifeboat

UNSCHEDULABLE = "cluster.karmada.io/unschedulable"


def member_kubeconfig(folder: Path, **user: str) -> Path:
    """Write the kubeconfig of a member."""
    authority = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
    file = folder / "member.config"
    config = {
        "contexts": [{"name": "c", "context": {"cluster": "m", "user": "u"}}],
        "clusters": [{"name": "m", "cluster": {"server": "https://m:6443", "certificate-authority-data": authority}}],
        "users": [{"name": "u", "user": user}],
        "current-context": "c",
    }
    file.write_text(yaml.safe_dump(config))
    return file


def taints(api: Client, name: str) -> list[str]:
    found = api.get(f"{CLUSTERS}/{name}").document["spec"].get("taints", [])
    return [f"{one['key']}={one.get('value', '')}:{one['effect']}" for one in found]


def test_clusters_are_listed_as_kubectl_lists_them(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")

    table, wide = lifeboat("clusters"), lifeboat("clusters", "-o", "wide")

    (row,) = [line.split() for line in table.stdout.splitlines() if line.startswith(f"{name} ")]
    assert row[2:4] == ["Push", "True"] or "True" in row
    assert "REGION" in wide.stdout.splitlines()[0]
    assert "REGION" not in table.stdout.splitlines()[0]
    listed = yaml.safe_load(lifeboat("clusters", "-o", "yaml").stdout)
    assert name in {one["metadata"]["name"] for one in listed["items"]}


def test_top_shows_what_is_requested_of_what_there_is(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")
    summary = {
        "allocatable": {"cpu": "10", "memory": "20Gi", "pods": "110"},
        "allocated": {"cpu": "2500m", "memory": "5Gi", "pods": "11"},
    }
    status = {"resourceSummary": summary, "nodeSummary": {"totalNum": 3, "readyNum": 2}}
    assert api.patch(f"{CLUSTERS}/{name}/status", {"status": status}).status == 200

    done = lifeboat("top")

    assert done.exit_code == 0, done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.startswith(f"{name} ")]
    assert row[1:] == ["True", "2.5/10.0", "25%", "5.0Gi/20.0Gi", "25%", "11/110", "10%", "2/3"]


def test_a_member_is_joined_with_its_credentials_and_again_with_new_ones(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    file, name = member_kubeconfig(tmp_path, token="one"), f"{namespace}-a"

    tried = lifeboat("join", name, "--cluster-kubeconfig", str(file), "--dry-run")
    assert (tried.exit_code, api.get(f"{CLUSTERS}/{name}").status) == (0, 404), tried.stderr
    joined = lifeboat("join", name, "--cluster-kubeconfig", str(file))
    member_kubeconfig(tmp_path, token="two")
    again = lifeboat("join", name, "--cluster-kubeconfig", str(file))

    assert (joined.exit_code, joined.stdout) == (0, f"{name} joined: https://m:6443\n"), joined.stderr
    assert again.exit_code == 0, again.stderr
    spec = api.get(f"{CLUSTERS}/{name}").document["spec"]
    assert (spec["apiEndpoint"], spec["secretRef"]["name"]) == ("https://m:6443", name)
    secret = api.get(f"/api/v1/namespaces/karmada-cluster/secrets/{name}").document
    assert base64.b64decode(secret["data"]["token"]) == b"two"
    assert secret["metadata"]["annotations"]["cluster.lifeboat.io/credentials-of"] == name


def test_joining_again_without_an_authority_removes_the_one_that_an_import_or_manage_py_has_stored(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    """The member has moved behind a certificate that all machines trust. It was still checked against the old one."""
    name, secrets = f"{namespace}-a", "/api/v1/namespaces/karmada-cluster/secrets"
    stored = {"token": "b25l", "caBundle": "b2xk"}
    assert api.post(secrets, {"metadata": {"name": name}, "data": stored}).status == 201
    assert api.post(CLUSTERS, cluster(name)).status == 201
    file = member_kubeconfig(tmp_path, token="two")
    config = yaml.safe_load(file.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    file.write_text(yaml.safe_dump(config))

    tried = lifeboat("join", name, "--cluster-kubeconfig", str(file), "--dry-run")
    assert (tried.exit_code, api.get(f"{secrets}/{name}").document["data"]) == (0, stored), tried.stderr
    done = lifeboat("join", name, "--cluster-kubeconfig", str(file))

    assert done.exit_code == 0, done.stderr
    assert api.get(f"{secrets}/{name}").document["data"] == {"token": base64.b64encode(b"two").decode()}


def test_joining_creates_the_impersonator_of_a_member(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    with start_fleet_process(tmp_path, members=["m"], tls=True) as fleet:
        done = lifeboat("join", namespace, "--cluster-kubeconfig", str(fleet.kubeconfig("m")))
        answer = api.get(f"{CLUSTERS}/{namespace}/proxy/api/v1/namespaces/karmada-cluster/serviceaccounts")

    assert (done.exit_code, done.stderr) == (0, "")
    assert [item["metadata"]["name"] for item in answer.document["items"]] == ["karmada-impersonator"]


def test_a_refused_member_leaves_no_secret_and_a_kubeconfig_without_a_token_is_explained(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    bad = f"{namespace}.with.dots"
    refused = lifeboat("join", bad, "--cluster-kubeconfig", str(member_kubeconfig(tmp_path, token="one")))
    without = lifeboat("join", namespace, "--cluster-kubeconfig", str(member_kubeconfig(tmp_path, username="u")))

    assert (refused.exit_code, "metadata.name" in refused.stderr) == (3, True), refused.stderr
    assert api.get(f"/api/v1/namespaces/karmada-cluster/secrets/{bad}").status == 404
    assert (without.exit_code, "kubectl create token" in without.stderr) == (2, True)
    assert lifeboat("join", namespace).exit_code == 2
    assert lifeboat("join", namespace, "--cluster-kubeconfig", str(tmp_path / "missing")).exit_code == 4


def test_a_pull_member_is_joined_with_a_token_for_its_agent(
    lifeboat: Lifeboat, server: Server, api: Client, namespace: str
) -> None:
    done = lifeboat("join", f"{namespace}-p", "--pull")

    register = f"lifeboat-agent register {namespace}-p --server "
    assert (done.exit_code, register in done.stderr) == (0, True), done.stderr
    assert api.get(f"{CLUSTERS}/{namespace}-p").document["spec"]["syncMode"] == "Pull"
    token = done.stderr.partition("--token ")[2].split()[0]
    assert server.client(token).get("/api").status == 200
    assert api.delete(f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token[:6]}").status == 200


def test_joining_in_another_mode_is_refused_and_the_cluster_stays_as_it_is(
    lifeboat: Lifeboat, api: Client, namespace: str, tmp_path: Path
) -> None:
    """Its agent, or its address and credentials, would be lost, and a minute later its workloads evicted."""
    file, pushed, pulled = member_kubeconfig(tmp_path, token="one"), f"{namespace}-a", f"{namespace}-p"
    assert lifeboat("join", pushed, "--cluster-kubeconfig", str(file)).exit_code == 0
    assert lifeboat("join", pulled, "--pull", "-o", "json").exit_code == 0
    before = [api.get(f"{CLUSTERS}/{name}").document["spec"] for name in (pushed, pulled)]

    refused = [
        lifeboat("join", pushed, "--pull"),
        lifeboat("join", pulled, "--cluster-kubeconfig", str(file)),
    ]

    assert [one.exit_code for one in refused] == [3, 3]
    assert f"lifeboat join {pushed} --cluster-kubeconfig FILE" in refused[0].stderr
    assert f"lifeboat join {pulled} --pull" in refused[1].stderr
    assert [api.get(f"{CLUSTERS}/{name}").document["spec"] for name in (pushed, pulled)] == before
    assert api.get(f"/api/v1/namespaces/karmada-cluster/secrets/{pulled}").status == 404


def test_taints_are_added_and_removed_and_others_stay(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")

    assert lifeboat("taint", name, "disk=slow:NoSchedule", "gpu:PreferNoSchedule", *DO).exit_code == 0
    cordoned = lifeboat("cordon", name, *DO)
    assert (cordoned.exit_code, cordoned.stdout) == (0, f"{name} cordoned\n"), cordoned.stderr
    assert set(taints(api, name)) == {"disk=slow:NoSchedule", "gpu=:PreferNoSchedule", f"{UNSCHEDULABLE}=:NoSchedule"}
    assert lifeboat("cordon", name).stdout == f"{name} is already cordoned\n"
    assert lifeboat("uncordon", name, "-o", "json").stdout.startswith("{")
    assert lifeboat("taint", name, "disk-").stdout == f"{name} untainted\n"
    assert lifeboat("taint", name, "disk-").stdout == f"{name} has no such taint: nothing to do\n"
    assert taints(api, name) == ["gpu=:PreferNoSchedule"]


def test_a_cordon_shows_its_dry_run_is_confirmed_and_keeps_its_reason(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")

    asked = lifeboat("cordon", name)
    tried = lifeboat("cordon", name, "--dry-run")
    long = lifeboat("cordon", name, "--yes", "--reason", "x" * 181)

    assert (asked.exit_code, taints(api, name)) == (7, [])
    assert "oves nothing" in asked.stderr or "oves 0" in asked.stderr, asked.stderr
    assert (tried.exit_code, "dry run: nothing was changed" in tried.stderr) == (0, True)
    assert (long.exit_code, "query.reason" in long.stderr) == (3, True), long.stderr
    assert taints(api, name) == []

    assert lifeboat("cordon", name, "--yes", "--reason", "new disks").exit_code == 0
    assert lifeboat("uncordon", name, "--reason", "disks are in").exit_code == 0
    of_writes = f"FROM objects_changelog WHERE name = '{name}' AND reason LIKE 'API: %' ORDER BY version"
    logged = server.sql(f"SELECT reason {of_writes}")
    assert logged == [("API: new disks",), ("API: disks are in",)]


def test_a_taint_that_evicts_is_confirmed_and_a_wrong_one_is_refused(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")

    asked = lifeboat("taint", name, "power=off:NoExecute")
    wrong = lifeboat("taint", name, "power=off:Never")
    invalid = lifeboat("taint", name, "not a key:NoSchedule")
    tried = lifeboat("taint", name, "power=off:NoExecute", "--dry-run")

    assert asked.exit_code == 7
    assert (wrong.exit_code, "KEY=VALUE:EFFECT" in wrong.stderr) == (2, True)
    assert (invalid.exit_code, "spec.taints" in invalid.stderr) == (3, True), invalid.stderr
    assert (tried.exit_code, taints(api, name)) == (0, [])
    assert lifeboat("taint", name, "power=off:NoExecute", *DO).exit_code == 0
    assert taints(api, name) == ["power=off:NoExecute"]
    assert lifeboat("cordon", f"{namespace}-missing").exit_code == 4


def test_a_fence_is_refused_on_a_cluster_that_answers_and_kept_on_one_that_does_not(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    well = join(api, server, f"{namespace}-a")
    lost = join(api, server, f"{namespace}-b", ready="False")

    refused = lifeboat("fence", well, "--reason", "no power", "--yes")
    asked = lifeboat("fence", lost, "--reason", "no power")
    done = lifeboat("fence", lost, "--reason", "no power", "--for", "10m", "--yes")

    assert (refused.exit_code, "cordon or drain it instead" in refused.stderr) == (3, True)
    assert (asked.exit_code, "run twice" in asked.stderr) == (7, True)
    assert (done.exit_code, done.stdout) == (0, f"{lost}: confirmed down for 10m\n"), done.stderr
    kept = api.get(f"{CLUSTERS}/{lost}").document["metadata"]["annotations"]["failover.lifeboat.io/fence"]
    assert json.loads(kept)["reason"] == "no power"
    assert lifeboat("fence", lost, "--remove", "--yes").stdout == f"{lost}: fence removed\n"
    assert lifeboat("fence", lost, "--remove", "--yes").stdout == f"{lost} has no fence: nothing to remove\n"
    assert lifeboat("fence", lost, "--for", "soon").exit_code == 2


def test_a_cluster_in_use_is_not_unjoined_unless_its_copies_are_decided_about(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")
    place(api, namespace, name)

    refused = lifeboat("unjoin", name, *DO)
    asked = lifeboat("unjoin", name, "--keep")
    done = lifeboat("unjoin", name, "--keep", *DO, "--no-wait")
    slow = lifeboat("unjoin", name, "--keep", *DO, "--timeout", "1s")

    assert (refused.exit_code, f"{namespace}/web-deployment" in refused.stderr) == (3, True), refused.stderr
    assert asked.exit_code == 7
    assert (done.exit_code, done.stdout) == (0, f"{name} is being unjoined\n"), done.stderr
    assert "deletionTimestamp" in api.get(f"{CLUSTERS}/{name}").document["metadata"]
    assert (slow.exit_code, "continues on the server" in slow.stderr) == (8, True), slow.stderr
    again = lifeboat("join", name, "--pull")
    assert (again.exit_code, "is being deleted" in again.stderr) == (3, True)


def test_an_unjoin_that_is_repeated_has_nothing_to_do(lifeboat: Lifeboat, namespace: str) -> None:
    again = lifeboat("unjoin", f"{namespace}-left", *DO)

    assert (again.exit_code, again.stdout) == (0, f"{namespace}-left is not joined: nothing to do\n"), again.stderr


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "%2e"])
def test_a_name_that_is_an_address_of_others_changes_nothing(lifeboat: Lifeboat, api: Client, name: str) -> None:
    assert api.post(CLUSTERS, cluster("stays")).status in (201, 409)

    for command, *options in (("unjoin", "--no-wait"), ("cordon",), ("fence",), ("resume",), ("hold",)):
        if name or command != "resume":  # without a name, resume ends the only pause
            done = lifeboat(command, name, *options, *DO)
            assert (done.exit_code, "is not the name of an object" in done.stderr) == (2, True), done.stderr

    assert "deletionTimestamp" not in api.get(f"{CLUSTERS}/stays").document["metadata"]
    assert lifeboat("queue", "-n", name or ".").exit_code == 2

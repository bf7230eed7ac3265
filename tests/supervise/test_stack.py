"""`make run`, `make up` and `make down`: everything comes up, answers, and ends without a trace."""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from apps.development.supervise import lifetime, records
from apps.development.supervise.stack import DEVELOPMENT_PROFILE, STARTED, metrics_ports
from config import product
from controlplane.settings.listing import all_settings
from tests.supervise.conftest import CommandLine, bare_environment, eventually

pytestmark = pytest.mark.slow


def status_of(url: str) -> int:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return int(answer.status)


def asked(supervise: CommandLine, path: str, server: str | None = None) -> HTTPResponse:
    """Return what the API answers, as kubectl asks (over TLS, None) or a browser."""
    kubeconfig = yaml.safe_load((supervise.home.root / "kubeconfig").read_text())
    address = server or kubeconfig["clusters"][0]["cluster"]["server"]
    token = kubeconfig["users"][0]["user"]["token"]
    request = urllib.request.Request(f"{address}{path}", headers={"Authorization": f"Bearer {token}"})
    trusting = ssl._create_unverified_context()  # whose certificate it is, is not what is looked at here
    opened: HTTPResponse = urllib.request.urlopen(request, timeout=60, context=trusting if server is None else None)
    return opened


def watch(supervise: CommandLine, server: str | None) -> HTTPResponse:
    return asked(supervise, "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dnobody", server)


def clusters(supervise: CommandLine) -> dict[str, str]:
    """Return the status of each cluster's condition Ready, by name."""
    with asked(supervise, "/apis/cluster.karmada.io/v1alpha1/clusters") as answer:
        items = json.load(answer)["items"]
    return {
        item["metadata"]["name"]: condition["status"]
        for item in items
        for condition in item.get("status", {}).get("conditions", ())
        if condition["type"] == "Ready"
    }


def started(supervise: CommandLine) -> dict[str, records.Record]:
    return {record.name: record for record in records.read_records(supervise.home.run)}


class Shared(NamedTuple):
    """A folder that all tests here start and end, each from the state in which it finds it."""

    supervise: CommandLine
    said: str  # by the first start, on an empty folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """The command line on a folder of this module, up for the first time."""
    command = CommandLine(tmp_path_factory.mktemp("stack") / "lifeboat")
    try:
        yield Shared(command, command("up").stdout)
    finally:
        command("clean")


@pytest.fixture
def supervise(shared: Shared) -> CommandLine:
    """The command line on the folder that the tests here share."""
    return shared.supervise


def test_up_returns_when_everything_answers_and_down_ends_all_of_it(supervise: CommandLine, shared: Shared) -> None:
    supervise("up")
    facts = supervise.home.published()
    running = started(supervise)

    assert facts is not None
    assert set(running) == {"postgres", "redis", *STARTED}
    assert status_of(f"{facts['api']}/admin/login/") == 200
    assert facts["api"] in shared.said
    assert "development profile" in shared.said
    assert f"make fault DIR={supervise.home.root} MEMBER=member1 FAULT=down" in shared.said
    assert "already up" in supervise("up").stdout

    watches = [watch(supervise, server) for server in (facts["api"], None)]
    supervise("down")

    assert [lines.read() for lines in watches] == [b"", b""]
    assert "Application shutdown complete" in supervise.home.log("api").read_text()
    assert not any(record.alive() for record in running.values())
    assert supervise.home.published() is None


@pytest.mark.skipif(not records.LINUX, reason="only there processes share their code")
def test_processes_share_the_memory_of_their_code_and_a_crashed_one_is_started_again(supervise: CommandLine) -> None:
    supervise("up")
    first = started(supervise)

    for name in STARTED:
        pid = first[name].pid
        sizes = dict(line.split()[:2] for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
        assert int(sizes["Pss:"]) < int(sizes["Rss:"]) * 0.7, name
        shown = Path(f"/proc/{pid}/cmdline").read_bytes()
        assert shown.startswith(sys.executable.encode()), shown
        assert b"preloaded" not in shown

    os.kill(first["beat"].pid, signal.SIGKILL)
    eventually(lambda: started(supervise)["beat"].pid != first["beat"].pid)
    eventually(lambda: supervise.home.log("beat").read_text().count("Starting...") >= 2)
    assert not first["beat"].alive()


def test_a_later_start_does_not_wait_for_migrations_and_has_everything(supervise: CommandLine, shared: Shared) -> None:
    assert "database migrated after" in shared.said
    supervise("down")

    said = supervise("up").stdout

    assert "database migrated after" not in said
    assert "up after" in said
    for server in (None, supervise.home.published()["api"]):  # type: ignore[index]
        watch(supervise, server).close()


def test_a_second_stack_beside_the_first_takes_other_ports(supervise: CommandLine) -> None:
    supervise("up")
    first = supervise.home.published()
    beside = CommandLine(supervise.home.root.parent / "beside")
    try:
        beside("up")
        second = beside.home.published()
        assert first is not None
        assert second is not None
        assert first["api"] != second["api"]
        assert status_of(f"{first['api']}/admin/login/") == status_of(f"{second['api']}/admin/login/") == 200
    finally:
        beside("clean")

    assert status_of(f"{first['api']}/admin/login/") == 200


@pytest.mark.skipif(not records.LINUX, reason="only Linux tells a child that its parent died")
def test_after_a_killed_run_nothing_lingers_and_the_next_start_works(supervise: CommandLine) -> None:
    supervise("up")
    holder, running = supervise.home.holder(), started(supervise)
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    eventually(lambda: not any(record.alive() for record in running.values()))

    supervise("up")

    facts = supervise.home.published()
    assert facts is not None
    assert status_of(f"{facts['api']}/admin/login/") == 200


def test_ctrl_c_ends_a_run_in_the_foreground(supervise: CommandLine) -> None:
    supervise("down")
    run = subprocess.Popen(
        supervise.argv("run"), cwd=lifetime.PROJECT, env=bare_environment(), stdout=subprocess.DEVNULL
    )
    eventually(lambda: supervise.home.published() is not None, within=300)
    running = started(supervise)

    run.send_signal(signal.SIGINT)

    assert run.wait(120) == 0
    assert not any(record.alive() for record in running.values())


def test_the_development_profile_is_made_of_settings_there_are() -> None:
    names = {product.variable(setting) for setting in all_settings()} | {"LIFEBOAT_DEVELOPMENT"}
    settings, warnings = product.from_environment(DEVELOPMENT_PROFILE)

    assert set(DEVELOPMENT_PROFILE) <= names
    assert settings.gate("Failover")
    assert warnings == []


def test_the_processes_of_one_run_get_metrics_ports_of_their_own() -> None:
    assert metrics_ports({}) == metrics_ports({"LIFEBOAT_METRICS_PORT": "0"}) == {}

    found = metrics_ports({"LIFEBOAT_METRICS_PORT": "9464"})

    assert {name: given["LIFEBOAT_METRICS_PORT"] for name, given in found.items()} == {
        "api": "9464",
        "worker": "9465",
        "beat": "9466",
        "members": "9467",
    }

"""Decisions that failed are kept without secrets and decided again."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from msgspec.structs import replace

from apps.worker import failures
from apps.worker.failures import keep, load, without_secrets
from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.clusters.questions import Ensure, Target
from controlplane.controllers.cluster_status import ClusterStatusSnapshot
from controlplane.controllers.execution import ExecutionSnapshot
from controlplane.engine.decision import Decision, Put
from controlplane.engine.failure import Failure
from controlplane.engine.run import World, run_batch
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders import bare, objects
from tests.stores.grounds import MemoryGround, Placer, create

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SECRET = "c2VjcmV0"


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.LIFEBOAT_HOME = tmp_path
    return tmp_path / "replay"


def failed(controller: str, snapshot: Any) -> Failure:
    return Failure(controller, Ref("x", "", "member1"), snapshot, "KeyError: 'x'", "trace", NOW, Settings())


def cluster() -> Cluster:
    return objects.cluster("member1")


def secret() -> Template:
    return Template("v1", "Secret", ObjectMeta(name="member1"), {"data": {"token": SECRET}})


@pytest.mark.parametrize(
    "value",
    [
        secret(),
        ExecutionSnapshot(objects.work(), cluster(), secret()),
        Ensure(Target("member1", "https://there", token=SECRET), {"kind": "Secret", "data": {"a": SECRET}}, True),
        {"items": [{"kind": "Secret", "stringData": {"a": SECRET}}]},
        failed("execution", (secret(), [secret()])),
    ],
    ids=["object", "snapshot", "question", "list", "failure"],
)
def test_no_secret_is_ever_kept(value: Any) -> None:
    assert SECRET in _text(value)
    assert SECRET not in _text(without_secrets(value))


def _text(value: Any) -> str:
    if isinstance(value, Ensure):
        return f"{value.target.token} {value.manifest}"
    return repr(value)


def test_what_is_kept_is_for_its_owner_only_and_decided_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(failed("cluster_status", ClusterStatusSnapshot(cluster(), None, None)))

    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load(file).controller == "cluster_status"
    call_command("replay", str(file))

    assert "it succeeds now" in capsys.readouterr().out


def test_what_still_fails_says_so(folder: Path) -> None:
    keep(failed("cluster_status", None))
    (file,) = folder.iterdir()

    with pytest.raises(CommandError, match="it failed again: AttributeError"):
        call_command("replay", str(file))


class Failing(Placer):
    """Fails for one binding, and says of each other that it is placed."""

    def decide(self, snapshot: Any, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        if snapshot.metadata.name == "bad":
            raise KeyError("x")
        return Decision(changes=(Put(snapshot.with_spec(clusters=(TargetCluster("member1", 2),)), snapshot),))


def test_where_inputs_cannot_be_kept_all_other_objects_are_decided(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For example because the disk is full. One bug: the batch failed as a whole, again and again."""
    folder.write_text("no folder can be made here")
    ground = MemoryGround(Failing())
    create(ground.store, bare.binding("bad"), bare.binding("good"))

    report = run_batch(Failing(), ground.store, Settings(), world=World(report=keep))

    assert [failure.ref.name for failure in report.failures] == ["bad"]
    assert [one.metadata.name for one in ground.store.list(RESOURCE_BINDING) if one.spec.clusters] == ["good"]
    assert f"its inputs cannot be kept in {folder}: " in caplog.text


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_FILES"])
def test_failures_of_many_objects_fill_no_disk(limit: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bug: a defect that concerns all objects wrote a file for each. A pod that exceeds the limit of /tmp ends."""
    monkeypatch.setattr(failures, limit, {"MOST_BYTES": 10_000, "MOST_FILES": 4}[limit])
    text = "x" * 1000

    for number in range(100):
        failure = replace(failed("cluster_status", text), ref=Ref("x", "", f"member{number}"))
        keep(failure)
        os.utime(folder / f"cluster_status-x_member{number}.pickle", (number, number))

    kept = {file.name for file in folder.iterdir()}
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 10_000
    assert len(kept) == 4
    assert "cluster_status-x_member99.pickle" in kept, "the newest are kept"
    assert "cluster_status-x_member0.pickle" not in kept


def test_inputs_are_kept_although_another_process_removes_a_file_meanwhile(folder: Path) -> None:
    """One bug: the processes of a worker make room at the same time, and then some inputs were not kept."""
    folder.mkdir(parents=True)
    (folder / "removed.pickle").symlink_to(folder / "nothing")  # is in the list of files, and cannot be looked at

    keep(failed("cluster_status", "text"))

    assert (folder / "cluster_status-x_member1.pickle").exists()


def test_inputs_that_are_too_large_are_not_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failures, "MOST_BYTES", 10_000)

    keep(failed("scheduler", "x" * 20_000))

    assert list(folder.iterdir()) == []
    assert "its inputs cannot be kept in" in caplog.text


def test_values_without_secrets_stay_as_they_are() -> None:
    kept: Sequence[Any] = [cluster(), (1, 2), Ref("x", "", "y"), {"kind": "ConfigMap", "data": {"a": "b"}}]

    assert [without_secrets(one) for one in kept] == kept


@pytest.mark.parametrize("content", [b"x", b"", b"garbage\n", b"cnone\nnone\n."])
def test_a_file_that_is_no_decision_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other.pickle"
    file.write_bytes(content)

    with pytest.raises(CommandError, match=r"other\.pickle has no decision that this version of Lifeboat has kept"):
        call_command("replay", str(file))


def test_a_kubeconfig_for_an_address_that_nothing_can_ask_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="'here' is no address; write https://HOST:PORT"):
        call_command("kubeconfig", "--server", "here", "--user", "root", "--out", str(tmp_path / "kubeconfig"))


def test_a_token_for_longer_than_times_can_be_stored_is_refused() -> None:
    with pytest.raises(CommandError, match="'999999999' is more than 99999 days"):
        call_command("token", "create", "--user", "root", "--days", "999999999")


def test_a_kubeconfig_that_kubectl_cannot_use_is_written_with_a_word(
    root: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kubectl drops the token without a word, and asks for credentials."""
    said = {}
    for scheme in ("http", "https"):
        out = str(tmp_path / scheme)
        call_command("kubeconfig", "--server", f"{scheme}://lifeboat.example", "--user", "root", "--out", out)
        said[scheme] = capsys.readouterr().err

    assert "kubectl sends no token over http" in said["http"]
    assert "kubectl" not in said["https"]

"""kubectl shows the settings in force from the first start, and `kubectl apply` still creates the object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.api.server import Client, Server
from tests.kubectl.test_kubectl import Kubectl

pytestmark = pytest.mark.kubectl

KIND = "failoverconfigurations"
HEADER = ["NAME", "FAILOVER", "TIER", "RATE", "RATES", "THRESHOLD", "LARGE", "AGE"]
UNTOUCHED = ["default", "Off", "Normal", "0.5", "0.5/0.1", "0.55", "10"]
CHANGED = ["default", "Off", "Normal", "2", "2/0.1", "0.55", "10"]
DOCUMENT = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "FailoverConfiguration",
    "metadata": {"name": "default"},
    "spec": {"resourceEvictionRate": 2.0},
}


@pytest.fixture
def k(kubectl: Path, server: Server, namespace: str, tmp_path: Path, api: Client) -> Iterator[Kubectl]:
    """kubectl, before and after which the object was not written."""
    path = f"/apis/failover.lifeboat.io/v1alpha1/{KIND}/default"
    api.delete(path)
    yield Kubectl(kubectl, server, namespace, tmp_path)
    api.delete(path)


def test_one_object_is_shown_before_it_was_written_and_apply_creates_it(k: Kubectl) -> None:
    for arguments in ((KIND,), (KIND, "default"), (f"{KIND}/default",)):
        header, row = k("get", *arguments).splitlines()
        assert header.split() == HEADER
        assert row.split()[:7] == UNTOUCHED
        assert re.fullmatch(r"[0-9smhdy]+", row.split()[7]), "the age of the installation"

    assert "not found" in k("get", KIND, "default", "-o", "yaml", code=1)
    assert "not found" in k("get", KIND, "other", code=1)
    assert "not found" in k("delete", KIND, "default", code=1)
    assert "/default created" in k("apply", "-f", k.file(DOCUMENT))
    assert json.loads(k("get", KIND, "default", "-o", "json"))["spec"] == DOCUMENT["spec"]
    assert k("get", KIND, "default").splitlines()[1].split()[:7] == CHANGED
    assert k("apply", "-f", k.file(DOCUMENT)).strip().endswith("/default unchanged")


@pytest.mark.parametrize("arguments", [(KIND,), (KIND, "default")])
def test_the_rows_of_a_watch_show_what_is_in_force_as_well(k: Kubectl, arguments: tuple[str, ...]) -> None:
    with _watching(k, *arguments) as lines:
        shown = [next(lines), next(lines)]
        k("apply", "-f", k.file(DOCUMENT))
        shown.append(next(lines))
        k("delete", KIND, "default")
        shown.append(next(lines))

    assert shown[0] == ["EVENT", *HEADER]
    assert [line[:8] for line in shown[1:]] == [
        ["ADDED", *UNTOUCHED],
        ["ADDED", *CHANGED],
        ["DELETED", *UNTOUCHED],
    ]


@contextmanager
def _watching(k: Kubectl, *arguments: str) -> Iterator[Iterator[list[str]]]:
    """Watch, and give the words of each line."""
    with k.start("get", *arguments, "-w", "--output-watch-events", "--request-timeout=60s") as process:
        assert process.stdout is not None
        try:
            yield (line.split() for line in process.stdout)
        finally:
            process.terminate()

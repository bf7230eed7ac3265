"""Karmada's own command karmadactl, where it registers members."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.api.controllers import work
from tests.api.server import Client, Server


class Karmadactl:
    """karmadactl with the kubeconfig of the administrator."""

    def __init__(self, program: str, server: Server, folder: Path) -> None:
        self._begin = [program, "--kubeconfig", str(server.kubeconfig)]
        self._environment = {**os.environ, "HOME": str(folder)}

    def __call__(self, *arguments: str) -> str:
        """Run it and return what it printed. Raises AssertionError if it fails."""
        done = subprocess.run(
            [*self._begin[:1], *arguments, *self._begin[1:]],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self._environment,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def karmadactl(server: Server, tmp_path: Path) -> Karmadactl:
    program = shutil.which("karmadactl")
    if program is None:
        pytest.skip("karmadactl is not in PATH")
    return Karmadactl(program, server, tmp_path)


def test_tokens_are_created_listed_and_deleted(karmadactl: Karmadactl, server: Server, api: Client) -> None:
    made = karmadactl("token", "create", "--print-register-command", "--ttl", "1h")

    token = next(word for word in made.split() if word[6:7] == "." and len(word) == 23)
    assert "karmadactl register" in made
    assert server.client(token).get("/api").status == 200
    assert token in karmadactl("token", "list")
    work(server, "bootstrap_tokens")
    info = server.client("").get("/api/v1/namespaces/kube-public/configmaps/cluster-info")
    assert f"jws-kubeconfig-{token[:6]}" in info.document["data"]
    karmadactl("token", "delete", token[:6])
    assert server.client(token).get("/api").status == 401

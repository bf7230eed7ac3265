"""A credential plugin of a kubeconfig that fails is an error of the command, without what the plugin has printed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.processes import PROJECT

SECRET = "lb_only-for-tests"
GOOD = '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}'
PLUGINS = {
    "ends with an error": (f"echo {SECRET}; echo denied {SECRET} >&2; exit 3", "process returned 3"),
    "prints no JSON": (f"echo {SECRET}", "failed to decode process output"),
    "prints nothing of use": (f"echo '{GOOD.format(status='{}')}'", "missing token or clientCertificateData"),
}


def run(folder: Path, *, command: str) -> subprocess.CompletedProcess[str]:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, "interactiveMode": "Never"}}
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": user}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return subprocess.run(
        [sys.executable, "-m", "apps.command", "status"],
        cwd=PROJECT,
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("case", PLUGINS)
def test_a_plugin_that_fails_ends_the_command_and_shows_no_secret(case: str, tmp_path: Path) -> None:
    script, why = PLUGINS[case]
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!/bin/sh\n{script}\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)

    done = run(tmp_path, command=str(plugin))

    assert done.returncode == 5, done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert "ERROR:root" not in done.stderr
    assert f"the credential plugin {plugin} of its user failed: exec: {why}" in done.stderr
    assert "cannot be reached" not in done.stderr  # no request is sent without a login


def test_a_plugin_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, command="no-such-plugin")

    assert (done.returncode, "the credential plugin no-such-plugin of its user failed" in done.stderr) == (5, True), (
        done
    )

"""The command on a terminal, in a pipe, with other kubeconfigs, and as a plugin of kubectl."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.api.server import Client, Server
from tests.api.test_evictions import queue
from tests.command.conftest import Lifeboat
from tests.command.test_moving import SECONDS, started
from tests.processes import PROJECT, hear_interrupts

ALTERNATE, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"  # a screen of its own is entered and left
COLOUR = re.compile(r"\x1b\[(?:\d+;)*3\dm")


def on_a_terminal(server: Server, *arguments: str, **environment: str) -> str:
    """Return what the command prints on a terminal of 200 columns."""
    reader, terminal = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    reported = {
        **plain,
        "KUBECONFIG": str(server.kubeconfig),
        "TERM": "xterm-256color",
        "COLUMNS": "200",
        **environment,
    }
    call = [sys.executable, "-m", "apps.command", *arguments]
    process = subprocess.Popen(
        call, cwd=PROJECT, env=reported, stdout=terminal, stderr=terminal, preexec_fn=hear_interrupts
    )
    os.close(terminal)
    printed = b""
    while chunk := _read(reader):
        printed += chunk
    os.close(reader)
    assert process.wait(timeout=SECONDS) == 0, printed
    return printed.decode()


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 65536)
    except OSError:  # the other end is closed
        return b""


def test_colours_are_for_terminals_only_and_not_if_no_color_is_set(lifeboat: Lifeboat, server: Server) -> None:
    assert COLOUR.search(on_a_terminal(server, "status"))
    assert not COLOUR.search(on_a_terminal(server, "status", NO_COLOR="1"))
    assert "\x1b" not in lifeboat("status", env={"NO_COLOR": ""}).stdout


def test_a_watched_queue_is_printed_again_when_it_changes_until_ctrl_c(
    server: Server, api: Client, namespace: str
) -> None:
    watching = started(server, "queue", "-w", "--interval", "1s", "-n", namespace)
    assert watching.stdout is not None
    assert watching.stdout.readline() == f"No eviction of namespace {namespace} waits.\n"

    queue(server, namespace, "web")
    assert watching.stdout.readline().startswith("1 queued; ")
    watching.send_signal(signal.SIGINT)

    assert watching.wait(timeout=SECONDS) == 130


def test_a_watched_status_fills_the_terminal_and_leaves_it_as_it_was(server: Server) -> None:
    reader, terminal = pty.openpty()
    reported = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "TERM": "xterm-256color", "COLUMNS": "200"}
    call = [sys.executable, "-m", "apps.command", "status", "-w", "--interval", "1s"]
    process = subprocess.Popen(
        call, cwd=PROJECT, env=reported, stdout=terminal, stderr=terminal, preexec_fn=hear_interrupts
    )
    os.close(terminal)
    printed, ends = b"", time.monotonic() + SECONDS
    while printed.count(b"As of ") < 2:
        assert time.monotonic() < ends, printed[-2000:]
        if select.select([reader], [], [], 1.0)[0]:
            printed += os.read(reader, 65536)
    process.send_signal(signal.SIGINT)
    while chunk := _read(reader):
        printed += chunk
    os.close(reader)

    assert process.wait(timeout=SECONDS) == 130
    assert (ALTERNATE in printed, LEFT in printed, b"Traceback" in printed) == (True, True, False)


def kubeconfig(server: Server, **user: Any) -> dict[str, Any]:
    """Return the kubeconfig of the server with another user."""
    config: dict[str, Any] = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = user
    return config


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_credentials_come_from_an_exec_plugin(lifeboat: Lifeboat, server: Server, tmp_path: Path, version: str) -> None:
    api_version = f"client.authentication.k8s.io/{version}"
    answer = {"apiVersion": api_version, "kind": "ExecCredential", "status": {"token": server.token}}
    plugin = {
        "apiVersion": api_version,
        "command": sys.executable,
        "args": ["-c", f"import json; print(json.dumps({answer!r}))"],
    }
    file = tmp_path / "exec.config"
    file.write_text(yaml.safe_dump(kubeconfig(server, exec={**plugin, "interactiveMode": "Never"})))

    done = lifeboat("version", "--kubeconfig", str(file))

    assert (done.exit_code, "server: v1." in done.stdout) == (0, True), done.stderr


def test_kubeconfig_may_be_a_list_of_files_and_a_context_has_a_namespace(
    lifeboat: Lifeboat, server: Server, tmp_path: Path, namespace: str
) -> None:
    config = kubeconfig(server, token=server.token)
    config["contexts"].append({"name": "shop", "context": {**config["contexts"][0]["context"], "namespace": namespace}})
    parts = [tmp_path / "one", tmp_path / "two"]
    parts[0].write_text(yaml.safe_dump({**config, "users": []}))
    parts[1].write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": config["users"]}))
    both = {"KUBECONFIG": os.pathsep.join(map(str, parts))}

    done = lifeboat("explain", "deployment/missing", "--context", "shop", env=both)

    assert (done.exit_code, f"in namespace {namespace}" in done.stderr) == (4, True), done.stderr


@pytest.mark.kubectl
def test_kubectl_finds_it_as_a_plugin(kubectl: Path, server: Server, tmp_path: Path) -> None:
    script = tmp_path / "kubectl-lifeboat"
    script.write_text(f'#!/bin/sh\ncd {PROJECT} && exec {sys.executable} -m apps.command "$@"\n')
    script.chmod(0o755)
    reported = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(server.kubeconfig),
    }

    done = subprocess.run(
        [kubectl, "lifeboat", "version"], env=reported, capture_output=True, text=True, check=False, timeout=SECONDS
    )

    assert (done.returncode, "server: v1." in done.stdout) == (0, True), done.stderr

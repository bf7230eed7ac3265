"""A stop of all drains of a cluster stops those that are there, although another one has just been deleted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command.conftest import Lifeboat

OLD, NEW = "upgrade", "drill-1-member1"


class Api(ThreadingHTTPServer):
    """An API with two drains of member1. The newer one, of a drill, is deleted while the user reads the question."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stopped: list[str] = []
        self.gone_before = False  # it is deleted before the question is asked, when it was listed


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        items = [drain(OLD, hour=1), drain(NEW, hour=2)]
        self._send(200, {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})

    def do_PATCH(self) -> None:
        path, _, query = self.path.partition("?")
        name, is_dry = path.rpartition("/")[2], "dryRun=All" in query
        self.rfile.read(int(self.headers["Content-Length"]))
        if name == NEW and (self.server.gone_before or not is_dry):
            self._send(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "message": "gone"})
            return
        self.server.stopped += [] if is_dry else [name]
        self._send(200, drain(name, hour=1))

    def _send(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


def drain(name: str, *, hour: int) -> dict[str, Any]:
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Drain"}
    metadata = {"name": name, "creationTimestamp": f"2026-01-01T{hour:02}:00:00Z"}
    return {**head, "metadata": metadata, "spec": {"cluster": "member1"}, "status": {"phase": "Running"}}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[Api, str]]:
    server = Api()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    named = {
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
    yield server, str(file)
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("gone_before", [False, True])
def test_a_drain_that_is_deleted_meanwhile_keeps_no_other_from_being_stopped(
    lifeboat: Lifeboat, api: tuple[Api, str], gone_before: bool
) -> None:
    server, kubeconfig = api
    server.gone_before = gone_before

    done = lifeboat("drain", "member1", "--stop", "--yes", "--kubeconfig", kubeconfig)

    assert (done.exit_code, server.stopped) == (0, [OLD]), done.stderr
    assert f"drain {OLD} stopped" in done.stdout
    assert f"drain {NEW} does not exist any more" in done.stderr

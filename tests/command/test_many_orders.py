"""An order about many evictions sends several requests at a time: far from the API, each takes as long as the way."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command.conftest import DO, Lifeboat

NAMES = tuple(f"web-{number}.member1" for number in range(8))
GONE = "web-5.member1"


class Api(ThreadingHTTPServer):
    """An API that answers no order before `together` of them have arrived."""

    def __init__(self, together: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.met = threading.Barrier(together, timeout=20)
        self.asked = Counter[str]()
        self.lock = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    server: Api
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, eviction(self.path.partition("?")[0].rpartition("/")[2]))

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        name = path.split("/")[-2]
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.asked["try" if "dryRun=All" in query else "order"] += 1
        self.server.met.wait()
        if name == GONE:
            self._send(404, {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "message": "gone"})
        else:
            self._send(200, eviction(name))

    def _send(self, code: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


def eviction(name: str) -> dict[str, Any]:
    head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Eviction"}
    return {**head, "metadata": {"name": name, "namespace": "shop"}, "spec": {"cluster": "member1"}, "status": {}}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[tuple[Api, str]]:
    """Return an API that answers orders in fours, and a kubeconfig for it."""
    server = Api(together=4)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    named = {
        "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a", "namespace": "shop"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "a", **named}))
    yield server, str(file)
    server.shutdown()
    server.server_close()
    thread.join()


def test_orders_are_sent_beside_each_other(lifeboat: Lifeboat, api: tuple[Api, str]) -> None:
    server, kubeconfig = api

    done = lifeboat("hold", *(name for name in NAMES if name != GONE), "web-9.member1", *DO, "--kubeconfig", kubeconfig)

    assert done.exit_code == 0, done.stderr
    assert server.asked == {"try": 8, "order": 8}
    assert "hold: 8 evictions" in done.stdout


def test_what_cannot_have_the_order_is_named_in_the_order_in_which_it_was_asked_for(
    lifeboat: Lifeboat, api: tuple[Api, str]
) -> None:
    server, kubeconfig = api
    server.met = threading.Barrier(1)

    done = lifeboat("hold", *NAMES, *DO, "-o", "json", "--kubeconfig", kubeconfig)

    assert done.exit_code == 3
    assert f"{GONE}: gone" in done.stderr
    given = [one["metadata"]["name"] for one in json.loads(done.stdout)["items"]]
    assert given == [name for name in NAMES if name != GONE]
    assert server.asked == {"try": 8, "order": 7}


def test_requests_use_the_same_connections_also_on_a_machine_with_one_core(
    lifeboat: Lifeboat, api: tuple[Api, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client kept five connections for each core, and gave up the others with a line on stderr for each."""
    server, kubeconfig = api
    server.met = threading.Barrier(8, timeout=20)
    monkeypatch.setattr("multiprocessing.cpu_count", lambda: 1)

    done = lifeboat("hold", *(f"web-{number}.member2" for number in range(24)), *DO, "--kubeconfig", kubeconfig)

    assert done.exit_code == 0, done.stderr
    assert "pool is full" not in caplog.text

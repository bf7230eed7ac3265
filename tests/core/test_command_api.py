"""Answers that are none of a Kubernetes API, for example of a proxy before it, are an error with a message."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import urllib3
from typer.testing import CliRunner

from apps.command import exit_codes
from apps.command.api import Api
from apps.command.errors import CommandError
from apps.command.kubeconfig import Access
from apps.command.program import app


class Pool:
    """Answers every request with the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def request(self, method: str, url: str, *, preload_content: bool, **more: Any) -> urllib3.HTTPResponse:
        return urllib3.HTTPResponse(BytesIO(self.text.encode()), status=200, preload_content=preload_content)


def api(text: str) -> Api:
    return Api(Access("https://lifeboat", "default", Pool(text), lambda: ""), warn=print)


def asked(one: Api, how: str) -> Any:
    path = "/api/v1/namespaces"
    calls = {
        "get": lambda: one.get(path),
        "items": lambda: one.items(path),
        "post": lambda: one.post(path, {}),
        "watch": lambda: list[Any](_watch(one, path)),
    }
    return calls[how]()


def _watch(one: Api, path: str) -> Iterator[Any]:
    return one.watch(path, "shop", seconds=1)


@pytest.mark.parametrize("how", ["get", "items", "post", "watch"])
@pytest.mark.parametrize("text", ["[]\n", "null\n", '"log in first"\n', "<html>\n", "{\n"])
def test_an_answer_that_is_no_object_is_an_error_with_its_text(how: str, text: str) -> None:
    with pytest.raises(CommandError, match="does not answer as a Kubernetes API") as found:
        asked(api(text), how)

    assert found.value.code == exit_codes.UNREACHABLE
    assert text.strip() in found.value.message


ANSWERS = {
    "empty": (200, {}),
    "a Status": (200, {"kind": "Status", "apiVersion": "v1", "status": "Success", "items": None, "rows": None}),
    "empty parts": (200, {"kind": "List", "metadata": {}, "spec": {}, "status": {}, "items": [{}], "rows": [{}]}),
    "other types": (200, {"kind": "List", "metadata": "a", "spec": 5, "status": ["a"], "items": ["a"], "rows": "a"}),
    "refused by a gateway": (403, {"details": "quota", "message": {"a": 1}, "code": "x"}),
}
DO = ("--yes", "--reason", "r")
COMMANDS: list[tuple[str, ...]] = [
    *(
        (name,)
        for name in ("status", "clusters", "top", "doctor", "queue", "readiness", "record", "compare", "version")
    ),
    *((name, "a") for name in ("explain", "readiness", "record", "whatif", "compare")),
    *((name, "a", *DO) for name in ("hold", "release", "skip", "expedite", "resume", "drain", "revert", "failback")),
    *((name, "a", *DO) for name in ("cordon", "uncordon", "fence", "unjoin", "takeover", "observe")),
    *(("resume", *DO), ("pause", *DO), ("taint", "a", "b:NoExecute", *DO), ("drill", "a", "--real", *DO)),
    *(("skip", "--cluster", "a", *DO), ("explain", "deploy/a"), ("join", "a", "--pull", *DO), ("record", "a.5")),
]


@contextmanager
def answering(folder: Path, code: int, document: Any) -> Iterator[str]:
    """The kubeconfig of a server that gives every request the same answer."""
    raw = json.dumps(document).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(code)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_POST = do_PATCH = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    there = {"name": "a", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    contexts = [{"name": "a", "context": {"cluster": "a", "user": "a"}}]
    users = [{"name": "a", "user": {"token": "t"}}]
    file = folder / "kubeconfig"
    file.write_text(json.dumps({"current-context": "a", "contexts": contexts, "clusters": [there], "users": users}))
    try:
        yield str(file)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("case", ANSWERS)
def test_no_command_ends_with_a_trace_because_a_field_of_an_answer_is_missing(case: str, tmp_path: Path) -> None:
    code, document = ANSWERS[case]
    traces, done = [], {}

    with answering(tmp_path, code, document) as kubeconfig:
        for command in COMMANDS:
            ended = CliRunner().invoke(app, [*command, "--kubeconfig", kubeconfig])
            done[command] = ended.exit_code
            if not isinstance(ended.exception, SystemExit | None):
                traces.append((command, repr(ended.exception)))

    assert not traces
    if case != "empty parts":
        assert 0 not in done.values(), done


def test_a_list_that_go_writes_as_null_is_empty() -> None:
    assert api('{"kind": "ClusterList", "items": null}').items("/apis/a/v1/clusters")["items"] == []


def test_readiness_says_where_a_workload_moves_in_a_sentence(tmp_path: Path) -> None:
    prospect = {"cluster": "member1", "moves": True, "afterSeconds": 300, "refuge": "all replicas fit: member2:3"}
    document = {"kind": "Readiness", "binding": "RB:shop/web", "ready": True, "prospects": [prospect]}

    with answering(tmp_path, 200, document) as kubeconfig:
        done = CliRunner().invoke(app, ["readiness", "web", "--kubeconfig", kubeconfig])

    assert "if member1 fails: moves 5m after the taint: all replicas fit: member2:3" in done.stdout

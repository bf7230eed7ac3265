"""A webhook server over TLS. The path of a request says how it is answered."""

from __future__ import annotations

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from apps.simulator.tls import Authority
from tests.admission import conversion

Node = dict[str, Any]


def patch(*operations: Node) -> Node:
    text = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": text}


def put(path: str, value: Any, op: str = "add") -> Node:
    return {"op": op, "path": path, "value": value}


def described(request: Node) -> str:
    """Return what a request says, without what differs between servers."""
    shown = {key: request.get(key) for key in ("operation", "kind", "resource", "subResource", "requestKind", "name")}
    shown |= {key: request.get(key) for key in ("namespace", "dryRun", "requestResource", "requestSubResource")}
    for key in ("object", "oldObject"):
        found = request.get(key)
        shown[key] = found and {
            **found,
            "metadata": {name: found["metadata"].get(name) for name in ("name", "namespace", "labels")},
        }
    shown["uids"] = [bool(found and found["metadata"].get("uid")) for found in (request["oldObject"],)]
    options = request.get("options") or {}
    shown["options"] = {key: options.get(key) for key in ("apiVersion", "kind", "dryRun")}
    return json.dumps(shown, sort_keys=True)


ANSWERS: dict[str, Node] = {
    "allow": {"allowed": True},
    "deny": {"allowed": False},
    "deny-message": {"allowed": False, "status": {"message": "no such luck"}},
    "deny-reason": {"allowed": False, "status": {"reason": "Forbidden"}},
    "deny-code": {"allowed": False, "status": {"message": "too many", "reason": "TooManyRequests", "code": 429}},
    "deny-low-code": {"allowed": False, "status": {"message": "fine", "code": 200}},
    "warn": {"allowed": True, "warnings": ["mind the gap", "and the step"]},
    "deny-warn": {"allowed": False, "status": {"message": "no"}, "warnings": ["mind the gap"]},
    "note": {"allowed": True, "auditAnnotations": {"size": "1"}},
    "patch-b": patch(put("/data/b", "patched")),
    "patch-untyped": {key: value for key, value in patch(put("/data/b", "x")).items() if key != "patchType"},
    "patch-typed-empty": {"allowed": True, "patchType": "JSONPatch"},
    "patch-odd-type": {**patch(put("/data/b", "x")), "patchType": "Merge"},
    "patch-no-json": {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(b"{").decode()},
    "patch-nowhere": patch(put("/nothing/here", "x", "replace")),
    "patch-wrong-type": patch(put("/data", "text", "replace")),
    "patch-name": patch(put("/metadata/name", "other", "replace")),
    "patch-short": patch(put("/spec/expirationSeconds", 700)),
    "patch-too-short": patch(put("/spec/expirationSeconds", 7)),
    "patch-true": patch(put("/spec/enabled", True)),
    "patch-unknown": patch(put("/metadata/labels/by", "hook"), put("/unknown", {"a": 1})),
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0].strip("/")
        if path.startswith("convert"):
            self._send(200, json.dumps(conversion.answer(path, review)).encode())
            return
        if path == "error":
            self._send(500, b"broken")
        elif path == "redirect":
            self._send(302, b"", ("Location", "/allow"))
        elif path == "no-json":
            self._send(200, b"nothing")
        else:
            self._send(200, json.dumps(self._review(path, review)).encode())

    def _review(self, path: str, review: Node) -> Node:
        request = review["request"]
        found = {"uid": request["uid"], **self._response(path, request)}
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": found}
        match path:
            case "empty":
                del answer["response"]
            case "wrong-uid":
                found["uid"] = "other"
            case "wrong-kind":
                answer["kind"] = "Review"
            case "wrong-version":
                answer["apiVersion"] = "admission.k8s.io/v1beta1"
        return answer

    def _response(self, path: str, request: Node) -> Node:
        if path == "slow":
            self.server.asked.set()  # type: ignore[attr-defined]
            self.server.released.wait(5)  # type: ignore[attr-defined]
        if path == "describe":
            return {"allowed": True, "warnings": [described(request)]}
        if path == "deny-delete":
            return {"allowed": request["operation"] != "DELETE", "status": {"message": "it stays"}}
        if path.startswith("append-"):
            data = (request["object"] or {}).get("data", {})
            return patch(put("/data/a", data.get("a", "") + path[-1], "replace"))
        return ANSWERS.get(path, ANSWERS["allow"])

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class HookServer:
    """The server on a free port. `bundle` and `other` are authorities: its own, and that of another server."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self.asked = self._server.asked = threading.Event()  # type: ignore[attr-defined]
        self._server.released = threading.Event()  # type: ignore[attr-defined]
        authority = Authority()
        self.bundle = base64.b64encode(authority.certificate).decode()
        self.other = base64.b64encode(Authority().certificate).decode()
        self._server.socket = authority.contexts().good.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def release(self) -> None:
        """Let slow answers go, from now on at once."""
        self._server.released.set()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._server.released.set()  # type: ignore[attr-defined]
        self._server.shutdown()
        self._server.server_close()

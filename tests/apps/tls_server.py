"""A webhook for tests: an HTTPS server on the loopback address that answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from apps.simulator.tls import Authority

HANG_SECONDS = 30.0


class TlsServer:
    """Answers POST with a ResourceInterpreterContext. `/hang` never answers in time, `/moved` redirects."""

    def __init__(self) -> None:
        self._authority = Authority()
        self.certificate = self._authority.certificate
        self.last: dict[str, Any] = {}
        self._response: Callable[[dict[str, Any]], dict[str, Any]] = lambda request: {}
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = self._authority.contexts().good.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/"

    def respond(self, response: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answer from now on with what the function returns for a request."""
        self._response = response

    def __enter__(self) -> TlsServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/hang":
                    server._ended.wait(HANG_SECONDS)
                    return
                server.last = json.loads(body)
                moved = self.path == "/moved"
                context = {**server.last, "response": server._response(server.last["request"])}
                text = json.dumps(context).encode()
                self.send_response(302 if moved else 200)
                if moved:
                    self.send_header("Location", server.url)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

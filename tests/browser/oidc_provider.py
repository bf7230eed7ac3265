"""An OpenID provider for browsers, which is a real HTTP server: a page with a button, codes, and tokens for them."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.api.test_oidc import Provider

CLIENT, SECRET = "lifeboat-console", "s:cret"


class BrowserProvider(Provider):
    """The provider of `tests/api/test_oidc.py` with the authorization code flow. `claims`: of the next ID tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                asked = {name: values[0] for name, values in parse_qs(url.query).items()}
                if url.path == "/authorize":
                    self.answer(200, f'<h1>Provider</h1><a href="/approve?{url.query}">I am eva</a>'.encode())
                elif url.path == "/approve":
                    code = secrets.token_urlsafe()
                    provider.codes[code] = asked
                    back = urlencode({"code": code, "state": asked["state"]})
                    self.answer(302, b"", Location=f"{asked['redirect_uri']}?{back}")
                else:
                    self.answer(200, json.dumps(provider.document(self.path)).encode())

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(raw).items()}
                found = provider.exchanged(form, self.headers.get("Authorization", ""))
                self.answer(400 if found is None else 200, json.dumps(found or {"error": "invalid_grant"}).encode())

            def answer(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                """Print nothing."""

        self.server.RequestHandlerClass = Handler

    def document(self, path: str) -> dict[str, Any]:
        found = super().document(path)
        if "jwks_uri" in found:
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "end_session_endpoint": "end"}
            found |= {name: f"{self.issuer}/{place}" for name, place in names.items()}
        return found

    def exchanged(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Return the tokens for a code, which is valid once; None: this client does not get them."""
        asked = self.codes.pop(form["code"], None)
        pair = base64.b64encode(f"{CLIENT}:s%3Acret".encode()).decode()
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        proven = asked is not None and asked["code_challenge_method"] == "S256" and challenge == asked["code_challenge"]
        if asked is None or not proven or authorization != f"Basic {pair}":
            return None
        if form["redirect_uri"] != asked["redirect_uri"] or form["grant_type"] != "authorization_code":
            return None
        given = {"aud": CLIENT, "nonce": asked["nonce"], "iat": int(time.time()), **self.claims}
        return {"access_token": "unused", "token_type": "Bearer", "id_token": self.token(**given)}

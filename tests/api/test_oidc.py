"""Bearer tokens of an OpenID Connect provider, which is a real HTTP server here."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.api.roles import bind, wait_until_allowed
from tests.api.server import Client, Server
from tests.api.test_logins import ends
from tests.builders.documents import config_maps
from tests.processes import until

AUDIENCE = "lifeboat"
ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Provider:
    """An OpenID provider on a port of its own. While `hangs` is set, it answers nothing. `context`: it serves TLS.

    `broken`: what it sends instead of each answer; b"": nothing.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.keys: dict[str, Any] = {
            "one": rsa.generate_private_key(public_exponent=65537, key_size=2048),
            "two": ec.generate_private_key(ec.SECP256R1()),
        }
        self.broken = b""
        self.asked = 0
        self.hangs = threading.Event()
        self.freed = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if provider.hangs.is_set():
                    provider.freed.wait(60)
                provider.asked += 1
                if provider.broken:
                    self.wfile.write(provider.broken)
                    self.close_connection = True
                    return
                body = json.dumps(provider.document(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: Any) -> None:
                """Print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.issuer = f"{'https' if context else 'http'}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self, path: str) -> dict[str, Any]:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"}
        listed = []
        for kid, key in self.keys.items():
            kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
            listed.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig"})
        return {"keys": listed}

    def token(self, kid: str = "one", *, key: Any = None, algorithm: str = "", **claims: Any) -> str:
        """Return a token of eva that is valid for a minute, with other claims as given."""
        signing = key or self.keys[kid]
        default = "RS256" if isinstance(signing, rsa.RSAPrivateKey) else "ES256"
        given = {
            **{"iss": self.issuer, "aud": AUDIENCE, "sub": "4711", "exp": int(time.time()) + 60, "jti": "abc"},
            **{"name": "eva", "groups": ["shop-team", "night"], "tenant": "blue"},
            **claims,
        }
        return jwt.encode(given, signing, algorithm=algorithm or default, headers={"kid": kid})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    made = Provider()
    yield made
    made.freed.set()
    made.server.shutdown()


@pytest.fixture(scope="module")
def trusting(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts the provider."""
    more = {
        "LIFEBOAT_OIDC_ISSUER": provider.issuer,
        "LIFEBOAT_OIDC_AUDIENCE": AUDIENCE,
        "LIFEBOAT_OIDC_USERNAME_CLAIM": "name",
        "LIFEBOAT_OIDC_GROUPS_CLAIM": "groups",
        "LIFEBOAT_OIDC_REQUIRED_CLAIMS": "tenant=blue",
    }
    with Server(tmp_path_factory.mktemp("oidc"), name="lifeboat_oidc", **more) as running:
        until(lambda: me(running, provider.token()), within=20)
        yield running


def me(server: Server, token: str) -> dict[str, Any]:
    answer = server.client(token).post(ME, {})
    return answer.document["status"]["userInfo"] if answer.status == 201 else {}


@pytest.mark.parametrize("kid", ["one", "two"], ids=["RS256", "ES256"])
def test_a_signed_token_is_a_login_with_its_name_and_groups(trusting: Server, provider: Provider, kid: str) -> None:
    assert me(trusting, provider.token(kid)) == {
        "username": "oidc:eva",
        "uid": "4711",
        "groups": ["oidc:shop-team", "oidc:night", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=abc"]},
    }


def test_groups_of_a_token_have_the_rights_of_their_roles(trusting: Server, provider: Provider) -> None:
    bind(trusting.client(), "oidc", to={"kind": "Group", "name": "oidc:shop-team"}, roles=("view",))
    client = trusting.client(provider.token())

    until(lambda: client.get(config_maps("default")).status == 200, within=10)
    assert trusting.client(provider.token(groups=["night"])).get(config_maps("default")).status == 403


def test_tokens_that_say_something_else_are_no_login(trusting: Server, provider: Provider) -> None:
    public = provider.keys["one"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = provider.token().split(".")[1]
    header = jwt.utils.base64url_encode(json.dumps({"alg": "HS256", "kid": "one"}).encode()).decode()
    by_hash = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    confused = by_hash.sign(f"{header}.{body}".encode(), public)
    wrong = {
        "expired": provider.token(exp=int(time.time()) - 60),
        "another issuer": provider.token(iss="https://other.example"),
        "another audience": provider.token(aud="other"),
        "a required claim": provider.token(tenant="red"),
        "no name": provider.token(name=""),
        "no time": jwt.encode(
            {"iss": provider.issuer, "aud": AUDIENCE, "name": "eva", "tenant": "blue"},
            *(provider.keys["one"], "RS256"),
            headers={"kid": "one"},
        ),
        "another key": provider.token(key=rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        "an unknown key": _with_unknown_key(provider),
        "none": jwt.encode({"iss": provider.issuer}, None, algorithm="none", headers={"kid": "one"}),
        "HS256 with the public key": f"{header}.{body}.{jwt.utils.base64url_encode(confused).decode()}",
        "RS512": provider.token(algorithm="RS512"),
    }

    assert [why for why, token in wrong.items() if me(trusting, token)] == []


def test_a_watch_ends_when_its_token_expires(trusting: Server, provider: Provider) -> None:
    bind(trusting.client(), "oidc-night", to={"kind": "Group", "name": "oidc:night"}, roles=("view",))
    path = config_maps("default")
    until(lambda: trusting.client(provider.token()).get(path).status == 200, within=10)
    short = trusting.client(provider.token(exp=int(time.time()) + 2))
    with short.watch(path, fieldSelector="metadata.name=none") as stream:
        assert stream.status == 200
        assert ends(stream)


def test_a_user_who_is_deactivated_here_has_no_login_with_a_token_either(trusting: Server, provider: Provider) -> None:
    """The subject of the provider is known here since a login by browser."""
    token, other = provider.token(sub="leaver", name="lea"), provider.token(sub="stayer", name="sten")
    trusting.sql(
        """INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, date_joined,
             first_name, last_name, email) VALUES ('oidc:lea', '!', false, true, true, now(), '', '', '')"""
    )
    trusting.sql(
        f"""INSERT INTO api_provideruser (issuer, subject, user_id)
            SELECT '{provider.issuer}', 'leaver', id FROM auth_user WHERE username = 'oidc:lea'"""
    )
    bind(trusting.client(), "oidc-lea", to={"kind": "User", "name": "oidc:lea"}, roles=["cluster-admin"])
    client = trusting.client(token)
    wait_until_allowed(client, "list", "namespaces")
    with client.watch("/api/v1/namespaces", fieldSelector="metadata.name=none") as stream:
        assert stream.status == 200
        trusting.sql("UPDATE auth_user SET is_active = false WHERE username = 'oidc:lea'")

        until(lambda: client.get("/api/v1/namespaces").status == 401, within=5)
        assert ends(stream)
    assert me(trusting, other)["username"] == "oidc:sten"


def test_a_new_key_of_the_provider_is_found_and_an_old_one_forgotten(trusting: Server, provider: Provider) -> None:
    provider.keys["three"] = ec.generate_private_key(ec.SECP256R1())
    before = provider.token("two")
    second = provider.keys.pop("two")
    try:
        until(lambda: me(trusting, provider.token("three")), within=20)
        assert not me(trusting, before)
    finally:
        provider.keys["two"] = second


def test_a_provider_that_hangs_costs_other_users_nothing(trusting: Server, provider: Provider) -> None:
    provider.hangs.set()
    try:
        known = provider.token()
        strangers: list[Client] = [trusting.client(_with_unknown_key(provider)) for _ in range(5)]
        began = time.monotonic()
        assert [one.get("/api").status for one in strangers] == [401] * 5
        assert trusting.client().get("/api").status == 200
        assert me(trusting, known), "the keys that are known go on to be valid"
        assert time.monotonic() - began < 5
    finally:
        provider.hangs.clear()
        provider.freed.set()


@pytest.mark.parametrize(
    "broken",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{",
        b'HTTP/1.1 200 OK\r\n\r\n{"issuer": "ISSUER", "jwks_uri": "ISSUER/keys", "keys": 5}',
    ],
    ids=["no HTTP", "cut off", "no list of keys"],
)
def test_keys_are_read_again_after_a_provider_has_answered_nonsense(
    trusting: Server, provider: Provider, broken: bytes
) -> None:
    stranger, before = trusting.client(_with_unknown_key(provider)), provider.asked
    provider.broken = broken.replace(b"ISSUER", provider.issuer.encode())
    try:
        until(lambda: stranger.get("/api").status == 401 and provider.asked > before + 1, within=20)
    finally:
        provider.broken = b""

    kid = f"after-{before}"
    provider.keys[kid] = ec.generate_private_key(ec.SECP256R1())
    try:
        until(lambda: me(trusting, provider.token(kid)), within=20)
    finally:
        del provider.keys[kid]


def _with_unknown_key(provider: Provider) -> str:
    return jwt.encode({"iss": provider.issuer}, provider.keys["one"], algorithm="RS256", headers={"kid": "other"})


@pytest.mark.parametrize("claim", ["name", "groups", "sub", "jti"])
def test_a_claim_that_is_no_unicode_text_keeps_no_refusal_from_the_audit(
    trusting: Server, provider: Provider, claim: str
) -> None:
    odd = {claim: ["night\ud800"] if claim == "groups" else "eva\ud800"}
    namespace = f"odd-{claim}"

    answer = trusting.client(provider.token(**odd)).delete(config_maps(f"{namespace}-first"))
    trusting.client(provider.token()).delete(config_maps(namespace))

    assert answer.status in (401, 403)
    until(lambda: namespace in refused_in(trusting), within=20)


def refused_in(server: Server) -> set[str]:
    """Return the namespaces of the requests whose refusal the audit has."""
    return {row[0] for row in server.sql("SELECT namespace FROM objects_auditevent WHERE code = 403")}

"""Logins with client certificates, from the TLS connection and from a proxy in front."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from apps.worker.signing import Authority, new_authority, signed
from controlplane.authentication.signing_requests import Sign, ToSign
from tests.api.server import Client, Server
from tests.builders.certificates import pem_of, private_key, request_for

ME = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SECRET = "/api/v1/namespaces/kube-system/secrets/lifeboat-client-authority"


def login(authority: Authority, name: str, *groups: str, usages: tuple[str, ...] = ("client auth",)) -> tuple[str, str]:
    """Return a certificate of an authority and its private key, as PEM."""
    key = private_key()
    request = base64.b64decode(request_for(name, *groups, key=key)).decode()
    (certificate,) = signed(Sign(authority.certificate, authority.key, (ToSign(request, usages, 3600),)))
    return certificate, pem_of(key)


def own(api: Client) -> Authority:
    """The authority of a server."""
    data = api.get(SECRET).document["data"]
    return Authority(*(base64.b64decode(data[key]).decode() for key in ("tls.crt", "tls.key")))


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Path]:
    """An authority of the operators, and its file."""
    path, made = tmp_path_factory.mktemp("company") / "clients.crt", new_authority()
    path.write_text(made.certificate)
    return made, path


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory, company: tuple[Authority, Path]) -> Iterator[Server]:
    """A server that takes certificates from its TLS connections."""
    more = {"LIFEBOAT_CLIENT_CERTIFICATES": "tls", "LIFEBOAT_CLIENT_CA_FILE": str(company[1])}
    with Server(tmp_path_factory.mktemp("direct"), name="lifeboat_certificates", **more) as running:
        yield running


def kubectl_with(kubectl: Path, server: Server, folder: Path, pair: tuple[str, str], *words: str) -> str:
    """Run kubectl with a certificate and nothing else; return what it printed."""
    config: dict[str, Any] = yaml.safe_load(server.kubeconfig.read_text())
    config["users"] = [{"name": "me", "user": {}}]
    config["contexts"][0]["context"]["user"] = "me"
    for name, text in (("config", yaml.safe_dump(config)), ("me.crt", pair[0]), ("me.key", pair[1])):
        (folder / name).write_text(text)
    files = ["--client-certificate", str(folder / "me.crt"), "--client-key", str(folder / "me.key")]
    command = [str(kubectl), "--kubeconfig", str(folder / "config"), *files, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_kubectl_logs_in_with_a_certificate(
    kubectl: Path, direct: Server, company: tuple[Authority, Path], tmp_path: Path
) -> None:
    for authority, name in ((own(direct.client()), "eva"), (company[0], "bob")):
        said = kubectl_with(
            *(kubectl, direct, tmp_path, login(authority, name, "shop-team", "night-shift"), "auth", "whoami"),
            *("-o", "json"),
        )
        user = json.loads(said)["status"]["userInfo"]
        assert user["username"] == name
        assert sorted(user["groups"]) == ["night-shift", "shop-team", "system:authenticated"]
        assert user["extra"]["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")


def test_a_certificate_of_system_masters_may_do_everything(
    kubectl: Path, direct: Server, company: tuple[Authority, Path], tmp_path: Path
) -> None:
    pair = login(company[0], "root", "system:masters")

    assert kubectl_with(kubectl, direct, tmp_path, pair, "auth", "can-i", "delete", "clusters").startswith("yes")


def test_other_certificates_are_no_login(kubectl: Path, direct: Server, tmp_path: Path) -> None:
    stranger = login(new_authority(), "eva")

    said = kubectl_with(kubectl, direct, tmp_path, stranger, "auth", "whoami")

    assert "Username" not in said
    assert "Unable to connect" in said, "the connection is refused"
    context = ssl._create_unverified_context()
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"https://127.0.0.1:{direct.tls_port}/api", context=context)


def test_the_certificate_of_an_agent_is_no_login_for_a_later_cluster_of_its_name(
    kubectl: Path, direct: Server, tmp_path: Path
) -> None:
    api = direct.client()
    member = {"metadata": {"name": "member9"}, "spec": {"syncMode": "Pull"}}
    assert api.post("/apis/cluster.karmada.io/v1alpha1/clusters", member).status == 201
    pair = login(own(api), "system:lifeboat:agent:member9", "system:lifeboat:agents")
    asked = ("get", "--raw", "/apis/cluster.karmada.io/v1alpha1/clusters/member9")

    first = kubectl_with(kubectl, direct, tmp_path, pair, *asked)
    moved = '"creationTimestamp":"2099-01-01T00:00:00Z"'
    later = f"""regexp_replace(doc, '"creationTimestamp":"[^"]*"', '{moved}')"""
    direct.sql(f"UPDATE clusters_cluster SET doc = {later} WHERE name = 'member9'")
    second = kubectl_with(kubectl, direct, tmp_path, pair, *asked)

    assert '"name":"member9"' in first
    assert "issued before the present cluster member9 was created (2099-01-01T00:00:00Z)" in second


def test_a_header_is_no_login_where_certificates_come_from_tls(direct: Server) -> None:
    certificate, _ = login(own(direct.client()), "eva", "system:masters")

    answer = direct.client("").send("GET", "/api", None, {"X-SSL-Client-Cert": quote(certificate)})

    assert answer.status == 401


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server behind a proxy at 127.0.0.1."""
    more = {"LIFEBOAT_CLIENT_CERTIFICATES": "proxy", "LIFEBOAT_CLIENT_CERTIFICATE_PROXIES": "127.0.0.1"}
    with Server(tmp_path_factory.mktemp("behind"), name="lifeboat_proxied", **more) as running:
        yield running


def sent(server: Server, certificate: str, **headers: str) -> Any:
    given = {"X-SSL-Client-Cert": quote(certificate), "Content-Type": "application/json", **headers}
    return server.client("").send("POST", ME, b"{}", given)


def test_a_trusted_proxy_hands_on_certificates(behind: Server) -> None:
    authority = own(behind.client())
    certificate, _ = login(authority, "eva", "shop-team")

    answer = sent(behind, certificate)
    assert answer.status == 201, answer.body
    assert answer.document["status"]["userInfo"]["username"] == "eva"
    der = f":{''.join(certificate.splitlines()[1:-1])}:"
    assert behind.client("").send("GET", "/api", None, {"X-SSL-Client-Cert": der}).status == 200
    assert sent(behind, certificate, **{"X-Forwarded-For": "203.0.113.9"}).status == 201, "the peer counts"
    assert sent(behind, certificate, **{"Sec-Fetch-Site": "cross-site"}).status == 401
    assert sent(behind, "nothing").status == 401


def test_what_a_proxy_hands_on_is_verified(behind: Server) -> None:
    authority = own(behind.client())
    for certificate, _ in (login(new_authority(), "eva"), login(authority, "")):
        answer = sent(behind, certificate)
        assert answer.status == 401
        assert "client certificate is not accepted" in answer.document["message"]

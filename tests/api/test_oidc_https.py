"""An OpenID provider behind https: its certificate is checked against LIFEBOAT_OIDC_CA_FILE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest
from django.test import override_settings

from apps.api.oidc import document_at
from apps.simulator.tls import Authority
from tests.api.server import Server
from tests.api.test_oidc import AUDIENCE, Provider, me
from tests.processes import until


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def authority_file(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("authority") / "ca.crt"
    file.write_bytes(authority.certificate)
    return file


@pytest.fixture(scope="module")
def provider(authority: Authority) -> Iterator[Provider]:
    made = Provider(authority.contexts().good)
    yield made
    made.freed.set()
    made.server.shutdown()


def test_a_token_of_a_provider_behind_https_is_a_login(
    provider: Provider, authority_file: Path, tmp_path: Path
) -> None:
    more = {
        "LIFEBOAT_OIDC_ISSUER": provider.issuer,
        "LIFEBOAT_OIDC_AUDIENCE": AUDIENCE,
        "LIFEBOAT_OIDC_CA_FILE": str(authority_file),
        "LIFEBOAT_OIDC_USERNAME_CLAIM": "name",
    }
    with Server(tmp_path, name="lifeboat_oidc_https", **more) as server:
        until(lambda: me(server, provider.token()), within=20)

        assert me(server, provider.token())["username"] == "oidc:eva"
        assert me(server, provider.token(key=provider.keys["two"], kid="one", algorithm="ES256")) == {}


def test_a_provider_with_a_certificate_of_another_authority_is_not_read(
    provider: Provider, authority_file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.crt"
    other.write_bytes(Authority().certificate)
    address = f"{provider.issuer}/.well-known/openid-configuration"

    with override_settings(OIDC_CA_FILE=str(authority_file)):
        assert document_at(address)["issuer"] == provider.issuer
    for file in (str(other), ""):
        with override_settings(OIDC_CA_FILE=file), pytest.raises(URLError, match="certificate verify failed"):
            document_at(address)

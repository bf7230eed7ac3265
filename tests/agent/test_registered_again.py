"""An agent whose login the control plane does not accept any more is registered again, with a new token."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from apps.agent.credentials import Access, read, write
from apps.agent.process import Agent, Options
from apps.agent.program import _access, main
from apps.agent.registration import credentials_file
from apps.worker.signing import new_authority, signed
from controlplane.authentication.signing_requests import Sign, ToSign
from controlplane.settings import Settings
from tests.builders.certificates import pem_of, private_key

TOKEN = "abcdef.0123456789abcdef"


@contextmanager
def control_plane(*, refuses: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a control plane that signs all requests, and what it was asked. `refuses`: the first login."""
    authority, asked = new_authority(), list[str]()
    requests: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"GET {self.path}")
            if refuses and self.headers.get("Authorization") == "Bearer old":
                return self.send(401, {"kind": "Status", "message": "issued before the present cluster was created"})
            name = self.path.rpartition("/")[2]
            return self.send(200, {"metadata": {"name": name}, "status": {"certificate": requests.get(name, "")}})

        def do_POST(self) -> None:
            asked.append(f"POST {self.path}")
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            to_sign = ToSign(base64.b64decode(document["spec"]["request"]).decode(), ("client auth",), 3600)
            (certificate,) = signed(Sign(authority.certificate, authority.key, (to_sign,)))
            requests[document["metadata"]["name"]] = base64.b64encode(certificate.encode()).decode()
            self.send(201, document)

        def send(self, code: int, document: Any) -> None:
            text = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Write no log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def register(folder: Path, url: str) -> int:
    authority = folder / "authority.pem"
    authority.write_text(new_authority().certificate)
    given = ["--server", url, "--token", TOKEN, "--authority", str(authority), "--folder", str(folder)]
    return main(["register", "edge", *given])


@pytest.mark.parametrize("refuses", [True, False])
def test_an_agent_is_registered_again_only_if_its_login_is_refused(tmp_path: Path, *, refuses: bool) -> None:
    with control_plane(refuses=refuses) as (url, asked):
        write(credentials_file(tmp_path), Access(url, token="old"))

        assert register(tmp_path, url) == 0

        found = read(credentials_file(tmp_path))
        assert bool(found.certificate) is refuses
        assert [one for one in asked if one.startswith("POST")] == (
            ["POST /apis/certificates.k8s.io/v1/certificatesigningrequests"] if refuses else []
        )


def test_an_agent_that_starts_while_the_control_plane_is_away_is_registered(tmp_path: Path) -> None:
    write(credentials_file(tmp_path), Access("http://127.0.0.1:1", token="old"))

    assert register(tmp_path, "http://127.0.0.1:1") == 0
    assert read(credentials_file(tmp_path)).token == "old"


def certificate(*, begins: timedelta, lasts: timedelta = timedelta(days=90)) -> Access:
    """Return a login with a certificate that begins so long from now."""
    key, now = private_key(), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "system:lifeboat:agent:edge")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now + begins)
    made = builder.not_valid_after(now + begins + lasts).sign(key, hashes.SHA256())
    pem = made.public_bytes(Encoding.PEM).decode()
    return Access(f"https://{begins.days}", certificate=pem, key=pem_of(key))


DAY = timedelta(days=1)
OLD, NEW, EXPIRED = certificate(begins=-60 * DAY), certificate(begins=-DAY), certificate(begins=-99 * DAY)
GIVEN_TOKEN = Access("https://given", token="new")


@pytest.mark.parametrize(
    ("given", "kept", "used"),
    [
        (OLD, NEW, NEW),
        (NEW, OLD, NEW),
        (NEW, NEW, NEW),
        (NEW, EXPIRED, NEW),
        (EXPIRED, NEW, NEW),
        (OLD, None, OLD),
        (None, EXPIRED, EXPIRED),
        (GIVEN_TOKEN, EXPIRED, GIVEN_TOKEN),
        (GIVEN_TOKEN, NEW, GIVEN_TOKEN),
    ],
)
def test_credentials_that_were_given_count_unless_the_folder_has_their_renewal(
    given: Access | None, kept: Access | None, used: Access, tmp_path: Path
) -> None:
    if kept is not None:
        write(credentials_file(tmp_path), kept)
    if given is not None:
        write(tmp_path / "given", given)

    assert _access(tmp_path / "given" if given else None, "", tmp_path) == used


def test_credentials_that_are_not_there_any_more_are_those_of_the_folder(tmp_path: Path) -> None:
    """For example, a Secret with a first certificate was removed once the agent had renewed it."""
    write(credentials_file(tmp_path), NEW)

    assert _access(tmp_path / "removed", "", tmp_path) == NEW


def test_a_certificate_that_seems_old_when_it_is_issued_is_not_renewed_again_at_once(tmp_path: Path) -> None:
    """For example because the clock of the agent is two months ahead."""

    async def renews(url: str) -> None:
        member = Access("https://edge", token="any")
        login = replace(certificate(begins=-DAY), server=url)
        options = Options("edge", tmp_path, login, lambda: member, lasts=DAY, renew_at=0.0, expected={})
        agent = Agent(options, Settings())
        with suppress(TimeoutError):
            await asyncio.wait_for(agent._renewing(), 2.0)
        await agent.control_plane.close()
        await agent.core.close()
        agent.host.close()
        agent.disk.close()

    with control_plane(refuses=False) as (url, asked):
        asyncio.run(renews(url))

    assert len([one for one in asked if one.startswith("POST")]) == 1
    assert read(credentials_file(tmp_path)).certificate

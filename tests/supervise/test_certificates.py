"""The certificates of the development server fit each other, wherever the process that made them was killed."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest

from apps.api.certificates import Files, certificates


def serves(files: Files) -> bool:
    """Test whether a server can use the files, and a client that trusts the authority accepts them."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(files.certificate, files.key)
    client.load_verify_locations(files.authority)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0].version() is not None


@pytest.mark.parametrize("written", [("authority",), ("authority", "certificate"), ("key",)])
def test_a_renewal_that_was_killed_between_two_files_is_made_again(tmp_path: Path, written: tuple[str, ...]) -> None:
    """The server did not start any more, or no client accepted it, until a person removed the folder."""
    files, renewed = certificates(tmp_path / "tls"), certificates(tmp_path / "renewed")
    for name in written:
        shutil.copy(getattr(renewed, name), getattr(files, name))

    assert serves(certificates(tmp_path / "tls"))


@pytest.mark.parametrize("name", Files._fields)
def test_a_file_without_its_content_is_made_again(tmp_path: Path, name: str) -> None:
    getattr(certificates(tmp_path), name).write_text("")

    assert serves(certificates(tmp_path))


def test_certificates_that_fit_stay(tmp_path: Path) -> None:
    before = [file.read_bytes() for file in certificates(tmp_path)]

    assert [file.read_bytes() for file in certificates(tmp_path)] == before

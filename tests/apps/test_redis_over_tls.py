"""Celery's connection to Redis over TLS, to a server whose certificate is of an unknown authority."""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.simulator.tls import Authority
from tests import forked

PASSWORD = "only-for-this-redis"
SCRIPT = """
from config.celery import app

with app.connection_for_write() as connection:
    try:
        connection.default_channel.client.ping()
    except Exception as error:
        print(type(error).__name__, error)
"""


class Listener:
    """A server that ends TLS with a certificate of its own authority, and keeps what it is sent."""

    def __init__(self, folder: Path) -> None:
        authority = Authority()
        self.authority = folder / "ca.crt"
        self.authority.write_bytes(authority.certificate)
        self.received = b""
        self._tls: ssl.SSLContext = authority.contexts().good
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
                with self._tls.wrap_socket(client, server_side=True) as session:
                    self.received += session.recv(4096)
            except ssl.SSLError:
                continue  # the client does not trust the certificate
            except OSError:
                return


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Listener]:
    running = Listener(tmp_path)
    yield running
    running.close()


def connected(url: str) -> str:
    keys = {"LIFEBOAT_SECRET_KEY": "x", "LIFEBOAT_ENCRYPTION_KEYS": "A" * 43}
    done = forked.python(["-c", SCRIPT], env={**os.environ, **keys, "REDIS_URL": url})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_broker_gets_no_password_before_its_certificate_is_checked(listener: Listener) -> None:
    said = connected(f"rediss://:{PASSWORD}@127.0.0.1:{listener.port}/0")

    assert "CERTIFICATE_VERIFY_FAILED" in said
    assert listener.received == b""


def test_a_broker_of_a_known_authority_gets_the_password(listener: Listener) -> None:
    connected(f"rediss://:{PASSWORD}@127.0.0.1:{listener.port}/0?ssl_ca_certs={listener.authority}")

    assert PASSWORD.encode() in listener.received

"""Keys of Secrets are changed while processes run: those with the old keys cannot read what the others write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.api.server import Client, Server, free_ports
from tests.api.test_bootstrap_tokens import ALIKE, document
from tests.api.test_bootstrap_tokens import SECRETS as BOOTSTRAP
from tests.api.test_logins import ends
from tests.builders.documents import config_map, config_maps
from tests.processes import Processes, until

KEYS = "LIFEBOAT_ENCRYPTION_KEYS"


def test_a_secret_with_a_key_that_a_process_does_not_have_ends_no_watch_of_other_kinds(
    server: Server, api: Client, namespace: str, tmp_path: Path
) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    with restarted_with_a_new_key(server, tmp_path) as restarted:
        with api.watch(config_maps(namespace)) as watched, api.watch(secrets) as unreadable:
            made = restarted.post(secrets, {"metadata": {"name": "login"}, "stringData": {"password": "x"}})
            assert made.status == 201, made.body
            api.post(config_maps(namespace), config_map("later"))

            assert watched.next()["object"]["metadata"]["name"] == "later"
            failed = unreadable.next()
            assert (failed["type"], failed["object"]["code"]) == ("ERROR", 500)
            assert KEYS in failed["object"]["message"]
            read = api.get(f"{secrets}/login")
            assert (read.status, KEYS in read.document["message"]) == (500, True)
            with pytest.raises(EOFError):
                unreadable.next()
        restarted.delete(f"{secrets}/login")


def test_revoked_tokens_end_their_watches_although_the_secret_of_another_login_cannot_be_read(
    server: Server, api: Client, tmp_path: Path
) -> None:
    leaves = server.client(server.manage("token", "create", "--user", "admin", "--name", "leaves"))
    assert api.post(BOOTSTRAP, document("abcdef")).status == 201
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    with (
        restarted_with_a_new_key(server, tmp_path) as restarted,
        server.client(f"abcdef.{ALIKE}").watch(requests, fieldSelector="metadata.name=none") as unreadable,
        leaves.watch(requests, fieldSelector="metadata.name=none") as watched,
    ):
        assert (unreadable.status, watched.status) == (200, 200)
        changed = restarted.patch(f"{BOOTSTRAP}/bootstrap-token-abcdef", {"metadata": {"labels": {"a": "b"}}})
        assert changed.status == 200, changed.body

        server.manage("token", "revoke", "--user", "admin", "--name", "leaves")  # takes longer than a check of logins

        assert ends(watched)
        assert ends(unreadable)
        restarted.delete(f"{BOOTSTRAP}/bootstrap-token-abcdef")


@contextmanager
def restarted_with_a_new_key(server: Server, folder: Path) -> Iterator[Client]:
    """Yield a client of another api process, which encrypts with a key that the process of `server` does not have."""
    keys = f"{Fernet.generate_key().decode()},{server.environment[KEYS]}"
    port, tls_port = free_ports(2)
    serve = ["-m", "tests.api.quick", "serve", "--port", str(port), "--tls-port", str(tls_port)]
    with Processes(folder, {**server.environment, KEYS: keys}) as processes:
        processes.start("api", serve)
        restarted = Client(("127.0.0.1", port), server.client().token)
        until(lambda: answers(restarted), within=60)
        yield restarted


def answers(client: Client) -> bool:
    try:
        return client.get("/livez").status == 200
    except OSError:
        return False

"""Keys of Secrets are changed while processes run: those with the old keys cannot read what the others write."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.api.server import Client, Server, free_ports
from tests.builders.documents import config_map, config_maps
from tests.processes import Processes, until

KEYS = "LIFEBOAT_ENCRYPTION_KEYS"


def test_a_secret_with_a_key_that_a_process_does_not_have_ends_no_watch_of_other_kinds(
    server: Server, api: Client, namespace: str, tmp_path: Path
) -> None:
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    keys = f"{Fernet.generate_key().decode()},{server.environment[KEYS]}"
    port, tls_port = free_ports(2)
    serve = ["-m", "tests.api.quick", "serve", "--port", str(port), "--tls-port", str(tls_port)]
    with Processes(tmp_path, {**server.environment, KEYS: keys}) as processes:
        processes.start("api", serve)
        restarted = Client(("127.0.0.1", port), api.token)
        until(lambda: answers(restarted), within=60)

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


def answers(client: Client) -> bool:
    try:
        return client.get("/livez").status == 200
    except OSError:
        return False

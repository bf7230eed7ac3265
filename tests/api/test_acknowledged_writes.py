"""Several API processes behind one port: what they have acknowledged stays when one is killed, and it is replaced."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from pathlib import Path

import pytest

from tests.api.server import Server
from tests.builders.documents import config_map, config_maps
from tests.processes import family, until

CLIENTS, ACKNOWLEDGED = 8, 40


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_with_a_process_and_another_takes_its_place(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}  # the names with the resourceVersions of the answers
    enough = threading.Event()
    with Server(tmp_path, name=f"lifeboat_killed_{os.getpid()}", LIFEBOAT_API_PROCESSES="2") as server:
        process = server.process
        assert process is not None
        until(lambda: len(family(process)) == 3, within=30)
        parent, *before = family(process)

        def write(number: int) -> None:
            api, made = server.client(), 0
            while not enough.is_set():
                name = f"m-{number}-{made}"
                made += 1
                try:
                    answer = api.post(config_maps("default"), config_map(name))
                except (OSError, http.client.HTTPException):  # the process of this connection was killed
                    api = server.client()
                    continue
                assert answer.status == 201, answer.body
                acknowledged[name] = answer.document["metadata"]["resourceVersion"]

        threads = [threading.Thread(target=write, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        until(lambda: len(acknowledged) >= ACKNOWLEDGED, within=60)
        os.kill(before[0], signal.SIGKILL)
        at_death = len(acknowledged)
        until(lambda: len(acknowledged) >= at_death + ACKNOWLEDGED, within=60)
        enough.set()
        for thread in threads:
            thread.join(30)
        until(lambda: len(found := family(process)) == 3 and before[0] not in found, within=30)

        query = "SELECT name, resource_version::text FROM objects_object WHERE kind = 'ConfigMap' AND name LIKE 'm-%'"
        stored = dict(server.sql(query))
        logged = dict(server.sql("SELECT name, version::text FROM objects_changelog WHERE name LIKE 'm-%'"))
        recorded = {name for (name,) in server.sql("SELECT name FROM objects_auditevent WHERE name LIKE 'm-%'")}

        children = family(process)[1:]
        os.kill(parent, signal.SIGTERM)
        process.wait(30)
        assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]

    assert acknowledged.items() <= stored.items()
    assert stored == logged
    assert stored.keys() == recorded

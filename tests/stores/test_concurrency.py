"""Many processes write at once: no version is missed, no write is lost, no process waits for ever."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from apps.objects.store import DjangoStore
from controlplane.kinds import RESOURCE_BINDING
from tests.builders.bare import template
from tests.processes import Process, started
from tests.stores.grounds import controllers, create

WRITERS = 8
ROUNDS = 10

pytestmark = pytest.mark.django_db(transaction=True)


def database_url() -> str:
    """Return the address of the test database, for other processes."""
    given = os.environ["DATABASE_URL"]
    before, after = given.rsplit("/", 1) if "?" not in given else given.split("?", 1)[0].rsplit("/", 1)
    query = f"?{given.split('?', 1)[1]}" if "?" in given else ""
    assert after
    return f"{before}/{connection.settings_dict['NAME']}{query}"


def writer(number: int, folder: Path) -> Process:
    environment = {**os.environ, "DATABASE_URL": database_url(), "LIFEBOAT_DATABASE_POOL": "2"}
    with (folder / str(number)).open("wb") as output, (folder / f"{number}.log").open("wb") as errors:
        arguments = ["-m", "tests.stores.writer", str(number), str(ROUNDS)]
        return started(arguments, environment, output.fileno(), errors.fileno())


def test_a_tailer_sees_every_version_once_and_in_order_while_eight_processes_write(tmp_path: Path) -> None:
    store = DjangoStore(controllers=controllers())
    create(store, *(template(f"shared{one}", labels={"count": "0"}) for one in range(4)))
    seen: list[Any] = []
    writers = [writer(number, tmp_path) for number in range(WRITERS)]

    while any(one.poll() is None for one in writers):
        seen += store.changes(seen[-1].version if seen else 0, limit=500)
    while rest := store.changes(seen[-1].version, limit=500):
        seen += rest

    said = [log.read_text()[-2000:] for log in tmp_path.glob("*.log")]
    assert [one.returncode for one in writers] == [0] * WRITERS, said
    achieved = [json.loads((tmp_path / str(number)).read_text()) for number in range(WRITERS)]
    assert [change.version for change in seen] == list(range(1, len(seen) + 1))
    assert store.current_version() == seen[-1].version
    shared = [one for one in store.list("ConfigMap") if one.metadata.name.startswith("shared")]
    assert sum(int(one.metadata.labels["count"]) for one in shared) == sum(one["raised"] for one in achieved) > 0
    made = [change for change in seen if change.ref.kind == RESOURCE_BINDING]
    assert len(store.list(RESOURCE_BINDING)) == len(made)
    assert all(one["claimed"] for one in achieved)

"""Migrations, in a database of their own: each can be reversed and made again, and users keep their rights."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def database_url() -> Iterator[str]:
    """The URL of an empty database on the server of the tests."""
    url, name = os.environ["DATABASE_URL"], f"migrated_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_every_migration_can_be_taken_back_and_made_again_and_users_keep_their_rights(database_url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.apps.stepped"],
        env=os.environ | {"DATABASE_URL": database_url},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ran.stdout.splitlines() == ["left 0", "before True", "plain False"], ran.stderr

"""A disk of PostgreSQL that is really full: statements and connections that it refuses are reported with that cause."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection

from apps.api.error_mapping import status_error
from apps.objects.refusal import cause

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "lifeboat_on_a_small_disk"
FULL = "the disk of PostgreSQL is full (SQLSTATE 53100)"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB that belongs to the user of the PostgreSQL server."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a full disk needs the right to mount a file system of 24 MB")
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW data_directory")
            owner = os.stat(cursor.fetchone()[0])
        (tmp_path / "tablespace").mkdir()
        os.chown(tmp_path / "tablespace", owner.st_uid, owner.st_gid)
        for folder in tmp_path.parents:  # the user of the server passes through folders of pytest
            if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
                folder.chmod(0o711)
        tmp_path.chmod(0o711)
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@pytest.fixture
def database(disk: Path) -> Iterator[dict[str, Any]]:
    """A database whose files are on the small disk: the parameters of a connection to it."""
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLESPACE {NAME} LOCATION '{disk / 'tablespace'}'")
        cursor.execute(f"CREATE DATABASE {NAME} TEMPLATE template0 TABLESPACE {NAME}")
    try:
        given = {**connection.get_connection_params(), "dbname": NAME, "connect_timeout": 5}
        yield {name: value for name, value in given.items() if value is not None}
    finally:
        (disk / "fill").unlink(missing_ok=True)
        with connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
            cursor.execute(f"DROP TABLESPACE {NAME}")


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "fill").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(512))


def test_a_full_disk_is_named_by_a_refused_statement_and_by_a_refused_connection(
    disk: Path, database: dict[str, Any]
) -> None:
    with psycopg.connect(**database, autocommit=True) as session:
        session.execute("CREATE TABLE rows (content text)")
        fill(disk)
        with pytest.raises(psycopg.Error) as statement:
            session.execute("INSERT INTO rows SELECT repeat('x', 2000) FROM generate_series(1, 20000)")
    for kept in disk.rglob("pg_internal.init"):  # a server that starts again writes this file for its first connection
        kept.unlink()
    fill(disk)
    with pytest.raises(psycopg.Error) as connecting, psycopg.connect(**database):
        pass

    assert cause(statement.value) == cause(connecting.value) == FULL
    answer = status_error(connecting.value)
    assert answer.code == 503
    assert FULL in str(answer)

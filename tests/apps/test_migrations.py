"""Migrations, in a database of their own: each can be reversed, and what Django keeps of users stays in force."""

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

# A user from before there were roles; then every migration of ours is reversed and made again, as an upgrade does.
PROGRAM = """
import django
django.setup()
from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
ours = [app.label for app in apps.get_app_configs() if app.name.startswith("apps.")]
call_command("migrate", verbosity=0)
get_user_model().objects.create_superuser("before", password="before-roles")
get_user_model().objects.create_user("plain", password="before-roles")
for label in ours:
    if any(name == label for name, _ in MigrationRecorder(connection).applied_migrations()):
        call_command("migrate", label, "zero", verbosity=0)
left = [name for name in MigrationRecorder(connection).applied_migrations() if name[0] in ours]
tables = [name for name in connection.introspection.table_names() if name.split("_")[0] in ours]
print("left", len(left), *tables)
call_command("migrate", verbosity=0)
from apps.objects.access import authorize
from controlplane.authorization.attributes import Request
may = Request(verb="delete", api_group="cluster.karmada.io", resource="clusters", name="member1")
for name in ("before", "plain"):
    print(name, authorize(get_user_model().objects.get(username=name), may).allowed)
"""


@pytest.fixture
def database_url() -> Iterator[str]:
    """The URL of an empty database on the server of the tests."""
    url, name = os.environ["DATABASE_URL"], f"migrated_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
        server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def test_every_migration_can_be_reversed_and_a_superuser_of_before_may_do_everything_after_an_upgrade(
    database_url: str,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"DATABASE_URL": database_url},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.stdout.splitlines() == ["left 0", "before True", "plain False"], ran.stderr

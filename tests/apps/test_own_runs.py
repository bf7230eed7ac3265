"""Runs of these tests: a test that hangs fails by itself, and an earlier test cannot mix up the test database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from tests.processes import PROJECT


def run(tests: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests of another folder as those of this project are run."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", *options, tests]
    return subprocess.run(
        command, cwd=PROJECT, env=inherited | environment, capture_output=True, text=True, timeout=120, check=False
    )


# The fixture hangs after its test, where no exception in the test could end it.
HANGS = """
import threading
import pytest

@pytest.fixture
def stack():
    yield
    threading.Event().wait()

def test_before(): pass
def test_that_hangs(stack): pass
def test_after(): pass
"""


def test_a_test_that_hangs_fails_with_the_place_and_the_others_go_on(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    (tmp_path / "test_three.py").write_text(HANGS)

    done = run(
        tmp_path / "test_three.py", "-n", "1", "-p", "no:django", "-o", "addopts=", "-o", "faulthandler_timeout=1"
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout  # the test itself passes before its fixture hangs
    assert "test_that_hangs - worker 'gw0' crashed while running" in done.stdout
    assert f'File "{tmp_path / "test_three.py"}", line 8 in stack' in done.stderr
    assert 120 <= float(pytestconfig.getini("faulthandler_timeout")) <= 600


# The first test leaves a thread behind that tries to store an audit event again and again. The second is the first
# that uses a database, so the database is made while that thread runs.
AFTER_A_REFUSAL = """
from types import SimpleNamespace

from django.conf import settings
from django.db import connection

from apps.objects import audit_queue
from tests.conftest import django_db_setup

def test_that_records_a_refusal_without_a_database():
    audit_queue.FLUSH_SECONDS = 0.001
    audit_queue.QUEUE.put(SimpleNamespace(caller="eva", source="127.0.0.1"), None)
    assert audit_queue.QUEUE._thread.is_alive()

def test_that_uses_the_test_database(django_db_setup, django_db_blocker):
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        used, = cursor.fetchone()
    assert (used, settings.DATABASES["default"]["NAME"]) == ("test_lifeboat_made", "test_lifeboat_made")
"""
WITHOUT_MIGRATIONS = """
from tests.settings import *
DATABASES["default"]["TEST"] = {"MIGRATE": False}
"""


def test_a_thread_of_an_earlier_test_does_not_open_the_pool_with_another_database(tmp_path: Path) -> None:
    admin = os.environ["DATABASE_URL"]
    (tmp_path / "test_two.py").write_text(AFTER_A_REFUSAL)
    (tmp_path / "fast_settings.py").write_text(WITHOUT_MIGRATIONS)

    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS lifeboat_made")
        connection.execute("CREATE DATABASE lifeboat_made")
        done = run(
            tmp_path / "test_two.py",
            DATABASE_URL=urlunsplit(urlsplit(admin)._replace(path="/lifeboat_made")),
            DJANGO_SETTINGS_MODULE="fast_settings",
            PYTHONPATH=f"{tmp_path}:{PROJECT}",
        )
        connection.execute("DROP DATABASE lifeboat_made WITH (FORCE)")

    assert done.returncode == 0, done.stdout + done.stderr

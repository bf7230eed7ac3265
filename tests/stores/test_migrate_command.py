"""`manage.py migrate` beside sessions that lock the same tables in another order."""

from __future__ import annotations

from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.commands.migrate import Command as Migrate
from django.db import OperationalError

pytestmark = pytest.mark.django_db(transaction=True)


def deadlock() -> OperationalError:
    error = OperationalError("deadlock detected")
    error.__cause__ = psycopg.errors.DeadlockDetected()
    return error


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[OperationalError]:
    """What Django's command raises, one after the other, before it works."""
    errors = list[OperationalError]()
    works = Migrate.handle

    def handle(self: Migrate, *args: Any, **options: Any) -> None:
        if errors:
            raise errors.pop(0)
        works(self, *args, **options)

    monkeypatch.setattr(Migrate, "handle", handle)
    return errors


def test_a_migration_that_a_deadlock_ended_is_tried_again(failing: list[OperationalError]) -> None:
    """Migrations that lock several tables meet it while old processes run. `manage.py prepare` ended."""
    failing += [deadlock(), deadlock()]
    out = StringIO()

    call_command("migrate", stdout=out)

    assert out.getvalue().count("deadlock") == 2
    assert out.getvalue().endswith("No migrations to apply.\n")


def test_it_is_not_tried_for_ever(failing: list[OperationalError]) -> None:
    failing += [deadlock() for _ in range(9)]

    with pytest.raises(OperationalError, match="deadlock"):
        call_command("migrate", stdout=StringIO())

    assert len(failing) == 4

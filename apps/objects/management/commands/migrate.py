"""`manage.py migrate`: Django's command, without the time limit of statements. Waiting for a lock stays limited."""

from __future__ import annotations

from typing import Any, Final

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as Migrate
from django.db import OperationalError, connections

from apps.objects.refusal import DEADLOCK, LOCKED, sqlstate

ATTEMPTS: Final = 5  # a deadlock with processes that go on writing ends one of the two, and often the migration


class Command(Migrate):
    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate. Building an index may take long. A long wait for a lock would block every session behind it."""
        with connections[options["database"]].cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
        try:
            self._migrate(*args, **options)
        except OperationalError as error:
            if sqlstate(error) != LOCKED:
                raise
            raise CommandError(
                "a migration waited for a lock longer than LIFEBOAT_DATABASE_LOCK_SECONDS and was rolled back: another "
                "session, for example a backup, uses its table. When that session has ended, run again: "
                "manage.py migrate"
            ) from error
        finally:
            with connections[options["database"]].cursor() as cursor:
                cursor.execute("RESET statement_timeout")

    def _migrate(self, *args: Any, **options: Any) -> None:
        """Migrate. What is applied stays applied, so the command goes on with the migration that was rolled back."""
        for left in reversed(range(ATTEMPTS)):
            try:
                super().handle(*args, **options)
                return
            except OperationalError as error:
                if sqlstate(error) != DEADLOCK or not left:
                    raise
                self.stdout.write(" rolled back because of a deadlock with another session; trying again")

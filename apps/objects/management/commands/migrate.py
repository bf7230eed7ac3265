"""`manage.py migrate`: Django's, without the limit on the time of a statement. That on waiting for a lock stays."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands.migrate import Command as Migrate
from django.db import OperationalError, connections

from apps.objects.refusal import LOCKED, sqlstate


class Command(Migrate):
    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate. Building an index takes as long as it takes; waiting for a lock would stop everybody behind it."""
        with connections[options["database"]].cursor() as cursor:
            cursor.execute("SET statement_timeout = 0")
        try:
            super().handle(*args, **options)
        except OperationalError as error:
            if sqlstate(error) != LOCKED:
                raise
            raise CommandError(
                "a migration waited for a lock longer than LIFEBOAT_DATABASE_LOCK_SECONDS and was taken back: another "
                "session, a backup for instance, uses its table; run this again when it has ended"
            ) from error
        finally:
            with connections[options["database"]].cursor() as cursor:
                cursor.execute("RESET statement_timeout")

"""`manage.py rotate-encryption`: encrypt every stored Secret with the first key of LIFEBOAT_ENCRYPTION_KEYS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.objects.encryption import SealError
from apps.objects.rotation import rotate


class Command(BaseCommand):
    help = (
        "Encrypts every stored Secret with the first key of LIFEBOAT_ENCRYPTION_KEYS. Put the new key in front of the "
        "list and restart all processes, run this command, then remove the old key from the list. The command may run "
        "at any time and does not interrupt other processes."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            done = rotate()
        except SealError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{done.changed} documents were encrypted with the first key")
        if done.lost:
            raise CommandError(f"{len(done.lost)} documents stay as they are, the first is {done.lost[0]}")

"""`manage.py rotate-encryption`: seal every stored Secret with the first of LIFEBOAT_ENCRYPTION_KEYS."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from apps.objects.encryption import SealError
from apps.objects.rotation import rotate


class Command(BaseCommand):
    help = (
        "Seals every stored Secret with the first of LIFEBOAT_ENCRYPTION_KEYS. Put the new key in front, restart, run "
        "this, then drop the old key from the list. It may be run at any time, beside everything else."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            changed = rotate()
        except SealError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{changed} documents were sealed anew")

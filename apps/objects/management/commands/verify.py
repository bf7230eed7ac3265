"""`manage.py verify`: compare derived tables with the documents; `--repair` writes what differs again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects.store import store
from apps.objects.verification import verify

SHOWN = 50


class Command(BaseCommand):
    help = (
        "Compares columns, index keys, labels and child rows with the documents of all objects, the use of quotas with "
        "all bindings, tallies with the rows that they count, and due rows with the controllers. Exits with 1 if "
        "something differs. With --repair it writes "
        "the derived values again. The command may run at any time; it reads all objects."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--repair", action="store_true", help="write the derived values again where they differ")

    def handle(self, *args: Any, **options: Any) -> None:
        found = verify(store(), repair=options["repair"])
        for one in found[:SHOWN]:
            self.stdout.write(str(one))
        if len(found) > SHOWN:
            self.stdout.write(f"and {len(found) - SHOWN} more")
        if not found:
            self.stdout.write("all derived values are as their documents give them")
        elif not options["repair"]:
            raise CommandError(f"{len(found)} values differ. Write them again: python manage.py verify --repair")
        elif left := verify(store()):
            raise CommandError(f"{len(found)} values differed, and {len(left)} cannot be repaired: {left[0]}")
        else:
            self.stdout.write(f"{len(found)} values differed and were written again")

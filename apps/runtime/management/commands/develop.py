"""`manage.py develop`: what the development profile adds to a fresh control plane."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.runtime.joining import JoinError, create_missing, from_list, join
from controlplane.errors import StatusError

PROFILE = "docs/examples/development.yaml"


class Command(BaseCommand):
    help = f"Join simulated members and create {PROFILE} where it is missing. Safe to run again; not for production."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="listed", type=Path, metavar="members.json", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        kept, settings = store(), configuration().settings()
        try:
            changed = join(kept, from_list(options["listed"]), settings)
            made = create_missing(kept, (django_settings.BASE_DIR / PROFILE).read_text(), settings)
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"joined: {', '.join(changed) or 'none anew'}; made: {', '.join(made) or 'nothing anew'}")

"""`manage.py develop`: what the development profile adds to a fresh control plane."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis import Redis, RedisError

from apps.clusters.joining import JoinError, create_missing, from_list, join
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError

PROFILE = "docs/examples/development.yaml"
REACHED_WITHIN = 5  # seconds to connect to a server


class Command(BaseCommand):
    help = f"Prepare, join simulated members, make {PROFILE} where it is missing. Safe to repeat; not for production."
    requires_system_checks = []  # `make check` runs them; here they would be a quarter of a later start

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="listed", type=Path, metavar="members.json", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        _reach_servers()
        call_command("prepare", stdout=self.stdout)
        self.stdout.write("prepared")
        self.stdout.flush()  # who waits for this may start now
        kept, settings = store(), configuration().settings()
        try:
            changed = join(kept, from_list(options["listed"]), settings)
            made = create_missing(kept, (django_settings.BASE_DIR / PROFILE).read_text(), settings)
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"joined: {', '.join(changed) or 'none anew'}; made: {', '.join(made) or 'nothing anew'}")


def _reach_servers() -> None:
    """Test that both servers let us in. Raises CommandError with their own words; the pool of connections has none."""
    database_url = os.environ.get("DATABASE_URL", "postgresql:///lifeboat")
    try:
        Redis.from_url(django_settings.REDIS_URL, socket_connect_timeout=REACHED_WITHIN).ping()
        psycopg.connect(database_url, connect_timeout=REACHED_WITHIN).close()
    except RedisError as error:
        raise CommandError(f"no Redis where REDIS_URL says: {error}") from error
    except psycopg.OperationalError as error:
        raise CommandError(f"no PostgreSQL where DATABASE_URL says: {error}") from error

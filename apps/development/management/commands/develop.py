"""`manage.py develop`: prepares the control plane of `make run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings as django_settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis import Redis, RedisError

from apps.clusters.impersonators import with_impersonators
from apps.clusters.joining import JoinError, create_missing, from_list, join
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError

PROFILE = "docs/examples/development.yaml"
CONNECT_SECONDS = 5


class Command(BaseCommand):
    help = f"Prepare, join simulated members, and create missing objects of {PROFILE}. For development only."
    requires_system_checks = []  # `make check` runs them; here they would take a quarter of the time of a start

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--from", dest="listed", type=Path, metavar="members.json", required=True)

    def handle(self, *args: Any, **options: Any) -> None:
        _reach_servers()
        call_command("prepare", stdout=self.stdout)
        self.stdout.write("prepared")
        self.stdout.flush()  # the supervisor starts the processes when it reads this line
        kept, settings = store(), configuration().settings()
        try:
            members, _ = with_impersonators(from_list(options["listed"]), settings.members)
            changed = join(kept, members, settings)
            made = create_missing(kept, (django_settings.BASE_DIR / PROFILE).read_text(), settings)
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"joined: {', '.join(changed) or 'no new cluster'}; created: {', '.join(made) or 'nothing new'}"
        )


def _reach_servers() -> None:
    """Connect to both servers. Raises CommandError with the reason, which the connection pool would not give."""
    database_url = os.environ.get("DATABASE_URL", "postgresql:///lifeboat")
    try:
        Redis.from_url(django_settings.REDIS_URL, socket_connect_timeout=CONNECT_SECONDS).ping()
        psycopg.connect(database_url, connect_timeout=CONNECT_SECONDS).close()
    except RedisError as error:
        raise CommandError(f"cannot connect to the Redis in REDIS_URL: {error}") from error
    except psycopg.OperationalError as error:
        raise CommandError(f"cannot connect to the PostgreSQL in DATABASE_URL: {error}") from error

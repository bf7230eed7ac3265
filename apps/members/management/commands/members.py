"""`manage.py members`: runs the members process."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand

from apps.members.process import serve
from apps.objects import tracing
from apps.objects.configuration import configuration
from apps.objects.encryption import keys
from apps.objects.free_memory import keep_returning
from apps.objects.metrics_server import serve_metrics
from apps.objects.store import store


class Command(BaseCommand):
    help = (
        "Run the process that probes, applies to and watches member clusters, until SIGTERM. Several may run at once."
    )
    requires_system_checks = []  # `manage.py prepare` runs them before any process starts

    def handle(self, *args: Any, **options: Any) -> None:
        keys(settings.ENCRYPTION_KEYS)  # without keys no credentials can be read: fail at the start
        serve_metrics()
        tracing.start("members")
        keep_returning()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(store(), configuration()))

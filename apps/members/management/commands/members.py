"""`manage.py members`: the process that talks to member clusters."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand

from apps.members.process import serve
from apps.objects.configuration import configuration
from apps.objects.encryption import keys
from apps.objects.store import store


class Command(BaseCommand):
    help = "Talk to member clusters: probe, apply, watch. Runs until SIGTERM; several may run, each object goes to one."
    requires_system_checks = []  # `manage.py prepare` runs them before any process starts

    def handle(self, *args: Any, **options: Any) -> None:
        keys(settings.ENCRYPTION_KEYS)  # credentials and many a Work are sealed: better refused now than one by one
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(store(), configuration()))

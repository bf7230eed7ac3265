"""`manage.py ownership`: prints docs/ownership.md."""

from typing import Any

from django.core.management.base import BaseCommand

from controlplane.controllers import CONTROLLERS
from controlplane.engine.ownership import ownership


class Command(BaseCommand):
    help = "Print docs/ownership.md: which controller writes what."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(ownership(CONTROLLERS), ending="")

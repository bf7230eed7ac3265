"""`manage.py fleet`: creates a realistic fleet in the running database."""

from __future__ import annotations

import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.development.fleet import Fleet, store_all
from apps.objects.configuration import configuration
from apps.objects.models import Due
from apps.objects.store import store
from apps.worker.clock import monotonic_seconds
from apps.worker.groups import GROUPS, MEMBERS
from apps.worker.outside_world import world
from apps.worker.turn import Turn

PLACING = ("scheduling", "propagation")
PAUSE_SECONDS = 0.1


def _number(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers. It raises ArgumentTypeError for other text and for numbers below `least`."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
        return int(text)

    return read


class Command(BaseCommand):
    help = "Create clusters, policies and workloads of a large fleet. Running it again adds nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--clusters", type=_number(1), default=100)
        parser.add_argument("--bindings", type=_number(0), default=10_000)

    def handle(self, *args: Any, **options: Any) -> None:
        began = monotonic_seconds()
        kept = store()
        fleet = Fleet(clusters=options["clusters"], bindings=options["bindings"], now=kept.now())
        made = store_all(kept, list(fleet.objects()), by="fleet")
        self.stdout.write(f"{made} objects created in {monotonic_seconds() - began:.1f} s")
        self._propagate()
        self.stdout.write(f"propagated after {monotonic_seconds() - began:.1f} s")

    def _propagate(self) -> None:
        """Process due objects, together with workers that run, until none is left."""
        while self._turns() or self._is_due():
            time.sleep(PAUSE_SECONDS)

    def _turns(self) -> int:
        return sum(self._turn(group.name, shard) for group in GROUPS.values() for shard in range(group.shards))

    def _is_due(self) -> bool:
        """Test whether an object is due for scheduling or propagation, or is in the batch of a worker."""
        names = [controller.name for group in PLACING for controller in GROUPS[group].controllers]
        return Due.objects.filter(controller__in=names, due_at__lte=store().now()).exists()

    def _turn(self, group: str, shard: int) -> int:
        if group == MEMBERS:
            return 0
        turn = Turn(group, shard, store=store(), world=world(), configuration=configuration())
        return turn.once()

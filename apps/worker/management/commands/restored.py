"""`manage.py restored`: declares that the database was restored from a backup, or confirms its state."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects import configuration, origin
from apps.objects.store import store
from apps.worker import restored
from controlplane import kinds

LOOK_SECONDS = 0.2  # between two looks whether all Works are current
REPORT_SECONDS = 5
DECLARED = "a person ran `manage.py restored`"


class Command(BaseCommand):
    help = (
        "Declare that the database was restored from a backup. resourceVersions are raised above all that clients may "
        "have seen, and nothing is written to a member until --confirm. A restore that is detected needs no command."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--confirm", action="store_true", help="write the restored state to members from now on")
        parser.add_argument(
            "--wait",
            type=float,
            default=300,
            metavar="SECONDS",
            help="how long --confirm waits at most until Works are made from what changed meanwhile (default 300)",
        )
        what.add_argument("--status", action="store_true", help="print whether members are written to; change nothing")
        parser.add_argument(
            "--beyond", type=int, default=0, help="a version that clients have seen; new ones are higher"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["status"]:
            self._print(origin.held())
        elif options["confirm"]:
            self._confirm(options["wait"])
        else:
            self._declare(options["beyond"])

    def _declare(self, beyond: int) -> None:
        try:
            held = restored.detector().check()
        except origin.OriginUnknown:
            held = None  # the person who runs this command knows
        if held is None or beyond > store().current_version():
            state = origin.declare_restored(DECLARED, beyond=beyond)
            restored.report(state)
            held = state.held
        self.stdout.write(f"resourceVersions continue at {store().current_version()}")
        self._print(held)

    def _confirm(self, wait_seconds: float) -> None:
        held = origin.held()
        if held is None:
            raise CommandError("there is nothing to confirm: members are written to as usual")
        for cluster in store().list(kinds.CLUSTER):
            if cluster.ready != "True":
                self.stdout.write(f"note: cluster {cluster.metadata.name} is not Ready: Ready is {cluster.ready}")
        origin.confirm()
        self._wait_for_works(wait_seconds)
        if not origin.release(held):
            raise CommandError(
                "the database was restored again, or confirmed by another command, while this one waited: see --status"
            )
        self.stdout.write("confirmed: the restored state is written to members from now on")

    def _wait_for_works(self, seconds: float) -> None:
        """Wait until Works are made from everything that changed since the backup."""
        ends, reports_at = time.monotonic() + seconds, time.monotonic() + REPORT_SECONDS
        while left := origin.unprepared(configuration.base()):
            if time.monotonic() >= ends:
                raise CommandError(
                    f"Works of {left} changed objects are not made yet, so nothing was written to members. Check that "
                    "workers run (/readyz?verbose), and run this command again."
                )
            if time.monotonic() >= reports_at:
                self.stdout.write(f"Works of {left} changed objects are not made yet")
                reports_at += REPORT_SECONDS
            time.sleep(LOOK_SECONDS)

    def _print(self, held: Any) -> None:
        self.stdout.write(held.message if held is not None else "members are written to as usual")

"""`manage.py restored`: after the database was restored from a backup."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects import origin
from apps.objects.store import store
from apps.worker import restored
from controlplane import kinds

DECLARED = "a person said that the database was restored"


class Command(BaseCommand):
    help = (
        "Say that the database was restored from a backup: resourceVersions are raised beyond all that clients have "
        "seen, and nothing is written to a member until --confirm. Done by itself where the restore was noticed."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--confirm", action="store_true", help="serve members again, with the restored state")
        what.add_argument("--status", action="store_true", help="say whether members are left alone; change nothing")
        parser.add_argument("--beyond", type=int, default=0, help="a resourceVersion known to have been given out")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["status"]:
            self._tell(origin.held())
        elif options["confirm"]:
            self._confirm()
        else:
            self._declare(options["beyond"])

    def _declare(self, beyond: int) -> None:
        held = restored.guard().look()
        if held is None or beyond > store().current_version():
            state = origin.declare_restored(DECLARED, beyond=beyond)
            restored.told(state)
            held = state.held
        self.stdout.write(f"resourceVersions go on at {store().current_version()}")
        self._tell(held)

    def _confirm(self) -> None:
        held = origin.held()
        if held is None:
            raise CommandError("members are not left alone: there is nothing to confirm")
        for cluster in store().list(kinds.CLUSTER):
            if cluster.ready != "True":
                self.stdout.write(f"note: cluster {cluster.metadata.name} is not Ready: Ready is {cluster.ready}")
        origin.confirm()
        self.stdout.write("confirmed: the restored state is applied to members from now on")

    def _tell(self, held: Any) -> None:
        self.stdout.write(held.message if held is not None else "members are served")

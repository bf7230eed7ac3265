"""`manage.py damaged`: list the objects whose stored document cannot be read; restore or delete one of them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects.configuration import configuration
from apps.objects.damaged import NotDamaged, damaged, delete, earlier, restore
from apps.objects.definitions import definitions
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.meta import Ref


class Command(BaseCommand):
    help = (
        "Lists the objects whose stored document is damaged or from a later release. The API can neither change nor "
        "delete them. With --restore the newest state of the change log that can be read takes its place, with "
        "--delete the object is deleted. The command may run at any time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        form = "as the list names it: group/Kind:namespace/name"
        actions = parser.add_mutually_exclusive_group()
        actions.add_argument("--restore", metavar="OBJECT", help=f"put the newest readable state in its place; {form}")
        actions.add_argument("--delete", metavar="OBJECT", help=f"delete it; {form}")

    def handle(self, *args: Any, **options: Any) -> None:
        definitions().refresh(at_once=True)
        try:
            if options["restore"]:
                self._restore(Ref.parse(options["restore"]))
            elif options["delete"]:
                self._delete(Ref.parse(options["delete"]))
            else:
                self._list()
        except (NotDamaged, StatusError, ValueError) as error:
            raise CommandError(str(error)) from None

    def _list(self) -> None:
        found = list(damaged())
        for one in found:
            state = earlier(one)
            kept = f"--restore puts version {state.version} in its place" if state else "no earlier state can be read"
            self.stdout.write(f"{one.ref}: {one.why}; {kept}")
        if found:
            raise CommandError(f"{len(found)} objects are damaged")
        self.stdout.write("no object is damaged")

    def _restore(self, ref: Ref) -> None:
        state = restore(store(), ref)
        self.stdout.write(f"{ref} is as it was at version {state.version}")

    def _delete(self, ref: Ref) -> None:
        is_gone = delete(store(), ref, configuration().settings())
        self.stdout.write(f"{ref} is deleted" if is_gone else f"{ref} is being deleted: its finalizers are waited for")

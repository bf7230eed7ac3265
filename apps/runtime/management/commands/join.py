"""`manage.py join`: let member clusters in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.objects.configuration import configuration
from apps.objects.store import store
from apps.runtime.joining import JoinError, from_kubeconfig, from_list, join
from controlplane.errors import StatusError


class Command(BaseCommand):
    help = "Join member clusters: keep their credentials in a Secret and make a Cluster for each. Safe to run again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="of one cluster; its current context is in --kubeconfig")
        parser.add_argument("--kubeconfig", type=Path)
        parser.add_argument("--from", dest="listed", type=Path, metavar="members.json", help="all of a simulator's run")

    def handle(self, *args: Any, **options: Any) -> None:
        name, kubeconfig, listed = options["name"], options["kubeconfig"], options["listed"]
        if bool(listed) == bool(name) or bool(name) != bool(kubeconfig):
            raise CommandError("say either NAME --kubeconfig FILE or --from members.json")
        try:
            members = from_list(listed) if listed else [from_kubeconfig(name, kubeconfig)]
            changed = join(store(), members, configuration().settings())
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        for member in members:
            self.stdout.write(f"{member.name} {'joined' if member.name in changed else 'is joined'}: {member.url}")

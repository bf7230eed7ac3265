"""`manage.py join`: let member clusters in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.joining import JoinError, from_kubeconfig, from_list, join, join_pull
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.names import CLUSTER_NAMESPACE


class Command(BaseCommand):
    help = (
        "Join member clusters: make a Cluster for each, and a Secret with the credentials where we reach it ourselves. "
        "Safe to run again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="of one cluster; its current context is in --kubeconfig")
        parser.add_argument("--kubeconfig", type=Path)
        parser.add_argument("--pull", action="store_true", help="its own agent reaches us; no kubeconfig is needed")
        parser.add_argument("--from", dest="listed", type=Path, metavar="members.json", help="all of a simulator's run")

    def handle(self, *args: Any, **options: Any) -> None:
        name, kubeconfig, listed, pull = (options[one] for one in ("name", "kubeconfig", "listed", "pull"))
        if bool(listed) == bool(name) or bool(name) != (bool(kubeconfig) != pull):
            raise CommandError("say one of NAME --kubeconfig FILE, NAME --pull, --from members.json")
        try:
            if pull:
                return self._pull(name)
            members = from_list(listed) if listed else [from_kubeconfig(name, kubeconfig)]
            changed = join(store(), members, configuration().settings())
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        for member in members:
            self.stdout.write(f"{member.name} {'joined' if member.name in changed else 'is joined'}: {member.url}")

    def _pull(self, name: str) -> None:
        settings = configuration().settings()
        joined = join_pull(store(), name, settings)
        every = settings.cluster_lease_duration * settings.cluster_lease_renew_fraction
        self.stdout.write(f"{name} {'joined' if joined else 'is joined'}: it is heard once its agent reports")
        self.stdout.write(
            f"the agent renews Lease {CLUSTER_NAMESPACE}/{name} ({settings.cluster_lease_duration:g} s) "
            f"every {every:g} s; its way in: manage.py kubeconfig --server https://… --agent {name}"
        )

"""`manage.py join`: join member clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.impersonators import with_impersonators
from apps.clusters.joining import JoinError, from_kubeconfig, from_list, join, join_pull
from apps.objects.configuration import configuration
from apps.objects.store import store
from controlplane.apimachinery.errors import StatusError
from controlplane.apimachinery.names import CLUSTER_NAMESPACE


class Command(BaseCommand):
    help = (
        "Join member clusters: create a Cluster for each, and a Secret with its credentials unless its agent connects "
        "to Lifeboat (--pull). The command can be repeated and then updates address and credentials."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="the name of the cluster in Lifeboat")
        parser.add_argument("--kubeconfig", type=Path, help="a kubeconfig whose current context is the cluster")
        parser.add_argument(
            "--pull", action="store_true", help="the cluster's agent connects to Lifeboat; no kubeconfig is needed"
        )
        parser.add_argument(
            "--from", dest="listed", type=Path, metavar="members.json", help="join all clusters of a simulator"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name, kubeconfig, listed, pull = (options[key] for key in ("name", "kubeconfig", "listed", "pull"))
        if bool(listed) == bool(name) or bool(name) != (bool(kubeconfig) != pull):
            raise CommandError(
                "give one of: manage.py join NAME --kubeconfig FILE, manage.py join NAME --pull, "
                "manage.py join --from members.json"
            )
        try:
            if pull:
                return self._pull(name)
            members = from_list(listed) if listed else [from_kubeconfig(name, kubeconfig)]
            settings = configuration().settings()
            members, problems = with_impersonators(members, settings.members)
            changed = join(store(), members, settings)
        except (JoinError, StatusError) as error:
            raise CommandError(str(error)) from error
        for member in members:
            state = "joined" if member.name in changed else "is already joined"
            self.stdout.write(f"{member.name} {state}: {member.url}")
            if problem := problems.get(member.name):
                self.stderr.write(
                    f"{member.name} has no new impersonator, which requests through the proxy need: {problem}; run the "
                    "command again when that is repaired"
                )

    def _pull(self, name: str) -> None:
        settings = configuration().settings()
        joined = join_pull(store(), name, settings)
        every = settings.cluster_lease_duration * settings.cluster_lease_renew_fraction
        self.stdout.write(f"{name} {'joined' if joined else 'is already joined'}: it is Ready when its agent reports")
        self.stdout.write(
            f"the agent must renew Lease {CLUSTER_NAMESPACE}/{name} (duration {settings.cluster_lease_duration:g} s) "
            f"every {every:g} s; `lifeboat join {name} --pull` prints the command that registers it, or create its "
            f"kubeconfig with: manage.py kubeconfig --server https://… --agent {name}"
        )

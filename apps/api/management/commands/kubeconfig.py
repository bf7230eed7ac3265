"""`manage.py kubeconfig --server URL --user NAME --out FILE`: a way in for kubectl."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.api import tokens
from apps.api.kubeconfig import kubeconfig, write_private
from apps.api.management.commands.token import days, user_of


class Command(BaseCommand):
    help = "Write a kubeconfig (mode 0600) with a new token of the user; the token of the file before it ends."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--server", required=True, help="https URL of the API: kubectl sends no token over http")
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--user")
        whose.add_argument("--agent", metavar="CLUSTER", help="the agent of a Pull member; it may do nothing else")
        parser.add_argument("--authority", default="", help="PEM file of the authority to trust; none: the system's")
        parser.add_argument("--days", type=days, help="how long its token is valid, as in `manage.py token create`")
        parser.add_argument("--out", default="kubeconfig", help="the file; its name is the token's")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["out"])
        user = user_of(options)
        secret = tokens.create(user, f"kubeconfig {path.absolute()}"[:100], days=options["days"])
        authority = Path(options["authority"]).read_bytes() if options["authority"] else b""
        text = kubeconfig(server=options["server"], user=user.get_username(), token=secret, authority=authority)
        write_private(path, text)
        self.stdout.write(f"{path} written")

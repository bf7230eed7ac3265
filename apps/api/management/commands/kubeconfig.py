"""`manage.py kubeconfig --server URL --user NAME --out FILE`: writes a kubeconfig for kubectl."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.api import tokens
from apps.api.kubeconfig import kubeconfig, write_private
from apps.api.management.commands.token import days, user_of


def address(text: str) -> str:
    """Return an address of the API. Raises ArgumentTypeError unless it is one of http or https."""
    if not text.startswith(("https://", "http://")):
        raise ArgumentTypeError(f"{text!r} is no address; write https://HOST:PORT")
    return text


class Command(BaseCommand):
    help = "Write a kubeconfig (mode 0600) with a new token of the user. If the file exists, its token is revoked."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--server", type=address, required=True, help="https URL of the API; kubectl sends no token over http"
        )
        users = parser.add_mutually_exclusive_group(required=True)
        users.add_argument("--user", help="name of the user")
        users.add_argument("--agent", metavar="CLUSTER", help="the agent of this Pull cluster, with rights for it only")
        parser.add_argument("--authority", default="", help="PEM file of the authority to trust; default: the system's")
        parser.add_argument("--days", type=days, help="days until the token expires, as in `manage.py token create`")
        parser.add_argument("--out", default="kubeconfig", help="file to write; the token is named after it")

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["out"])
        user = user_of(options)
        secret = tokens.create(user, f"kubeconfig {path.absolute()}"[:100], days=options["days"])
        authority = Path(options["authority"]).read_bytes() if options["authority"] else b""
        text = kubeconfig(server=options["server"], user=user.get_username(), token=secret, authority=authority)
        write_private(path, text)
        self.stdout.write(f"{path} written")
        if options["server"].startswith("http://"):
            self.stderr.write(
                "kubectl sends no token over http, so its requests are answered 401: write the https address for it. "
                "lifeboat and lifeboat-agent send the token."
            )

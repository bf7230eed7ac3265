"""`manage.py token create|list|renew|revoke`: bearer tokens for programs."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.api import agents, tokens
from apps.api.models import Token


def days(text: str) -> int:
    """Return a number of days. Raises ArgumentTypeError for anything but a whole one of 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number of days; 0 is until revoked")
    return int(text)


class Command(BaseCommand):
    help = "Make, list, renew and revoke the bearer tokens of users. A token is shown once, when it is made."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="make a token and print it; one of the same name is replaced")
        whose = create.add_mutually_exclusive_group(required=True)
        whose.add_argument("--user")
        whose.add_argument("--agent", metavar="CLUSTER", help="the agent of a Pull member; it may do nothing else")
        create.add_argument("--name", default="token")
        valid = f"how long it is valid; none: LIFEBOAT_TOKEN_DAYS ({settings.TOKEN_DAYS}); 0: until revoked"
        create.add_argument("--days", type=days, help=valid)
        listing = actions.add_parser("list", help="list tokens, without their secrets")
        listing.add_argument("--user", default="")
        renew = actions.add_parser("renew", help="let a token be valid anew, from now; its secret stays the same")
        renew.add_argument("--user", required=True)
        renew.add_argument("--name", default="token")
        renew.add_argument(
            "--days", type=days, help="for how long; none: as long as when it was made; 0: until revoked"
        )
        revoke = actions.add_parser("revoke", help="end a token at once")
        revoke.add_argument("--user", required=True)
        revoke.add_argument("--name", default="token")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(options)

    def create(self, options: dict[str, Any]) -> None:
        self.stdout.write(tokens.create(user_of(options), options["name"], days=options["days"]))

    def list(self, options: dict[str, Any]) -> None:
        tokens.forget_ended()
        found = Token.objects.select_related("user").order_by("user__username", "name")
        if options["user"]:
            found = found.filter(user=user_named(options["user"]))
        for token in found:
            until = tokens.validity(token)
            used = f"last used {token.last_used:%Y-%m-%d %H:%M}" if token.last_used else "never used"
            self.stdout.write(f"{token.user.get_username()}\t{token.name}\t{until}\t{used}")

    def renew(self, options: dict[str, Any]) -> None:
        token = Token.objects.filter(user=user_named(options["user"]), name=options["name"]).first()
        if token is None:
            raise CommandError(f"{options['user']} has no token {options['name']}; see manage.py token list")
        tokens.renew(token, days=options["days"])
        self.stdout.write(tokens.validity(token))

    def revoke(self, options: dict[str, Any]) -> None:
        if not tokens.revoke(user_named(options["user"]), options["name"]):
            raise CommandError(f"{options['user']} has no token {options['name']}; see manage.py token list")
        self.stdout.write("revoked")


def user_of(options: dict[str, Any]) -> Any:
    """Return the user that --user or --agent names. Raises CommandError where there is none."""
    try:
        return user_named(options["user"]) if options["user"] else agents.user_of(options["agent"])
    except agents.NotJoined as error:
        raise CommandError(str(error)) from error


def user_named(name: str) -> Any:
    """Return a user. Raises CommandError where there is none."""
    found = get_user_model().objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"there is no user {name}; make one: manage.py createsuperuser")
    return found

"""`manage.py token create|list|renew|revoke`: manages bearer tokens for programs."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.api import agents, tokens
from apps.api.models import Token

MOST_DIGITS: Final = 5  # of days; a time later than the year 9999 cannot be stored


def days(text: str) -> int:
    """Return a number of days. Raises ArgumentTypeError unless it is a whole number of 0 or more."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number of days; 0 means until revoked")
    if len(text.lstrip("0")) > MOST_DIGITS:
        raise ArgumentTypeError(f"{text!r} is more than {'9' * MOST_DIGITS} days; 0 means until revoked")
    return int(text)


class Command(BaseCommand):
    help = "Create, list, renew and revoke bearer tokens of users. A token is shown only when it is created."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create a token and print it; a token of the same name is replaced")
        users = create.add_mutually_exclusive_group(required=True)
        users.add_argument("--user", help="name of the user")
        users.add_argument("--agent", metavar="CLUSTER", help="the agent of this Pull cluster, with rights for it only")
        create.add_argument("--name", default="token")
        valid = f"days until it expires; default: LIFEBOAT_TOKEN_DAYS ({settings.TOKEN_DAYS}); 0: until revoked"
        create.add_argument("--days", type=days, help=valid)
        listing = actions.add_parser("list", help="list tokens, without their secrets")
        listing.add_argument("--user", default="")
        renew = actions.add_parser("renew", help="make a token valid again, from now; its secret stays the same")
        renew.add_argument("--user", required=True)
        renew.add_argument("--name", default="token")
        renew.add_argument(
            "--days",
            type=days,
            help="days until it expires; default: the lifetime it was created with; 0: until revoked",
        )
        revoke = actions.add_parser("revoke", help="revoke a token at once")
        revoke.add_argument("--user", required=True)
        revoke.add_argument("--name", default="token")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, options["action"])(options)

    def create(self, options: dict[str, Any]) -> None:
        self.stdout.write(tokens.create(user_of(options), options["name"], days=options["days"]))

    def list(self, options: dict[str, Any]) -> None:
        tokens.forget_ended()
        selected = Token.objects.select_related("user").order_by("user__username", "name")
        if options["user"]:
            selected = selected.filter(user=user_named(options["user"]))
        for token in selected:
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
    """Return the user of --user or --agent. Raises CommandError if it does not exist."""
    try:
        return user_named(options["user"]) if options["user"] else agents.user_of(options["agent"])
    except agents.NotJoined as error:
        raise CommandError(str(error)) from error


def user_named(name: str) -> Any:
    """Return a user by name. Raises CommandError if it does not exist."""
    user = get_user_model().objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"there is no user {name}; create it: manage.py createsuperuser, or Users in the admin")
    return user

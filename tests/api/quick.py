"""`python -m tests.api.quick serve`: manage.py with seconds where the product waits for half a minute or a minute."""

import sys

import django
from django.core.management import execute_from_command_line

BOOKMARKS_EVERY = 2.0  # seconds
REFUSED_FOR = 4.0  # seconds for which the readiness reports a refused write


def main() -> None:
    django.setup()
    from apps.api import feeding, health, watch_hub

    watch_hub.BOOKMARK_SECONDS = feeding.BOOKMARK_SECONDS = BOOKMARKS_EVERY
    health.REFUSED_SECONDS = REFUSED_FOR  # type: ignore[misc]  # the product does not change it
    execute_from_command_line(["manage.py", *sys.argv[1:]])


if __name__ == "__main__":
    main()

"""Who looks at pages, and what else tests of the running product stand on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.test import Client

from tests.apps.credentials import PASSWORD


def _client(*, superuser: bool) -> Client:
    from django.contrib.auth import get_user_model  # here: Django is not set up while fixtures are collected

    users = get_user_model().objects
    if superuser:
        user = users.create_superuser("root", password=PASSWORD)
    else:
        user = users.create_user("clerk", password=PASSWORD, is_staff=True)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def root(transactional_db: None) -> Client:
    """A superuser's browser."""
    return _client(superuser=True)


@pytest.fixture
def clerk(transactional_db: None) -> Client:
    """A browser of the staff without rights to write."""
    return _client(superuser=False)


@pytest.fixture
def flush() -> Callable[[], None]:
    """Empties the database."""
    return lambda: call_command("flush", verbosity=0, interactive=False)

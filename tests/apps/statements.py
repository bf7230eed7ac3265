"""Counts the statements of a block: those of Django's cursors and those of the store's binary cursors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.objects.arrays import BinaryCursor
from apps.objects.configuration import Configuration, configuration


@contextmanager
def statements() -> Iterator[list[str]]:
    """Yield a list that has, after the block, the statements that this thread has sent to PostgreSQL.

    The settings are read beforehand and not again: otherwise the number would depend on how long the block takes.
    """
    configuration().settings(reread=True)
    found: list[str] = []
    run = BinaryCursor.run

    def noting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
        found.append(str(query))
        return run(self, query, params)

    unread = patch.object(Configuration, "_read", lambda self, *, reread: None)
    with unread, patch.object(BinaryCursor, "run", noting), CaptureQueriesContext(connection) as asked:
        yield found
    found += [query["sql"] for query in asked.captured_queries]

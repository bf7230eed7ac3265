"""Counts the statements of a block: those of Django's cursors and those of the store's binary cursors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.objects import refreshed
from apps.objects.arrays import BinaryCursor
from apps.objects.configuration import Configuration, configuration


@contextmanager
def statements() -> Iterator[list[str]]:
    """Yield a list that has, after the block, the statements that this thread has sent to PostgreSQL.

    What a process reads every half second is not read again: otherwise the number would depend on the time it takes.
    """
    configuration().settings(reread=True)
    found: list[str] = []
    run = BinaryCursor.run

    def noting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
        found.append(str(query))
        return run(self, query, params)

    unread = patch.object(Configuration, "_read", lambda self: None)
    kept = patch.object(refreshed, "FRESH_SECONDS", inf)
    with unread, kept, patch.object(BinaryCursor, "run", noting), CaptureQueriesContext(connection) as asked:
        yield found
    found += [query["sql"] for query in asked.captured_queries]


def rows_received(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows of each answer that the store's cursors receive."""
    received: list[int] = []
    run = BinaryCursor.run

    def noting(self: BinaryCursor, query: Any, params: Any = ()) -> Any:
        answer = run(self, query, params)
        received.append(max(0, self.rowcount))
        return answer

    monkeypatch.setattr(BinaryCursor, "run", noting)
    return received

"""Single objects, read on the event loop: one prepared statement for all that wait, over a session of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Final

from psycopg import pq

from apps.objects.arrays import TextArray, texts
from apps.objects.loop_session import LoopSession, PreparedStatement

log: Final = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 3.0  # a statement that is not answered in this time ends the session
SESSION: Final = "lifeboat reads single objects"
_place: Final = Struct("!q").unpack

Read = Callable[[list[bytes | None] | None], None]
"""Takes the documents in the order of their names; None for an object that does not exist. None: reading failed."""


class PointReads(LoopSession):
    """The session that reads."""

    def __init__(self) -> None:
        super().__init__(SESSION)

    def start(self, table: str, names: Sequence[tuple[str, str, str]], read: Read) -> None:
        """Read objects by (kind, namespace, name) from their table. `read` is called with the documents."""
        columns = [texts(column).packed for column in zip(*names, strict=True)]
        count = len(names)
        self.run(_statement(table), columns, lambda found: read(_documents(found, count)), within=ANSWER_SECONDS)


def _documents(result: pq.abc.PGresult | None, count: int) -> list[bytes | None] | None:
    """Return the documents of a result; None: the statement failed."""
    if result is None:
        return None
    if result.status != pq.ExecStatus.TUPLES_OK or result.ntuples != count:
        log.warning("objects could not be read: %s", result.get_error_message())
        return None
    found: list[bytes | None] = [None] * count
    for row in range(count):
        found[_place(result.get_value(row, 0) or b"")[0] - 1] = result.get_value(row, 1)
    return found


@cache
def _statement(table: str) -> PreparedStatement:
    """Return the statement for documents by reference. The subquery looks up each reference in the index."""
    query = f"""
        SELECT w.place, (
            SELECT o.doc FROM {table} o WHERE o.kind = w.kind AND o.namespace = w.namespace AND o.name = w.name)
        FROM unnest($1, $2, $3) WITH ORDINALITY AS w(kind, namespace, name, place)"""
    return PreparedStatement(table.encode(), query.encode(), (TextArray.oid,) * 3)

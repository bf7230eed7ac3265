"""How many objects of a kind there are at a version, counted once and then brought up to date from the change log.

Counting takes 11 ms for 100,000 objects. Reading the changes since the last count takes what has changed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from apps.objects import change_log
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.tables import object_table

MOST_CHANGES: Final = 1000  # if there are more, the objects are counted again
MOST_KEPT: Final = 500  # counts, of kinds and namespaces
CHANGES_PER_OBJECT: Final = 4  # reading a change takes as long as counting so many objects

_GROWN: Final = f"""
    SELECT count(*) + (SELECT count(*) FROM objects_rowchange WHERE version > %s AND version <= %s),
        count(*) FILTER (WHERE kind = %s AND (%s = '' OR namespace = %s) AND type = 'ADDED')
        - count(*) FILTER (WHERE kind = %s AND (%s = '' OR namespace = %s) AND type = 'DELETED')
    FROM {change_log.TABLE} WHERE version > %s AND version <= %s"""


class _Count(NamedTuple):
    """The number of objects at a version."""

    version: int
    number: int


_known: dict[tuple[str, str], _Count] = {}  # by kind and namespace


def number_at(kind: str, *, namespace: str, version: int) -> int:
    """Return how many objects of a kind there are at a version that has just been read. `namespace` "": in all."""
    with binary_cursor() as cursor:
        known = _known.get((kind, namespace))
        found = None if known is None else _brought_to(cursor, known, kind, namespace, version)
        if found is None:
            counted = _counted(cursor, kind, namespace)
            # What was written since the version was read is taken back, unless that is a lot or not in the log.
            before = 0 if counted.version == version else _grown(cursor, kind, namespace, version, counted.version)
            found = _Count(version, counted.number - (before or 0))
    if len(_known) >= MOST_KEPT:
        _known.clear()
    _known[kind, namespace] = found
    return found.number


def forget() -> None:
    """Forget all counts: the database is another one now."""
    _known.clear()


def _brought_to(cursor: BinaryCursor, known: _Count, kind: str, namespace: str, version: int) -> _Count | None:
    """Return a count at a newer version; None: to count again is cheaper, or the log lacks some of the changes."""
    changes = version - known.version
    if changes == 0:
        return known
    if changes < 0 or changes * CHANGES_PER_OBJECT > known.number:
        return None
    grown = _grown(cursor, kind, namespace, known.version, version)
    return None if grown is None else _Count(version, known.number + grown)


def _grown(cursor: BinaryCursor, kind: str, namespace: str, after: int, until: int) -> int | None:
    """Return how many objects more there are than at an earlier version; None: there are too many changes, or the log
    lacks some of them."""
    if not 0 <= until - after <= MOST_CHANGES:
        return None
    chosen = (kind, namespace, namespace)
    row = cursor.run(_GROWN, (after, until, *chosen, *chosen, after, until)).fetchone()
    assert row is not None, "an aggregate has a row"
    return None if row[0] != until - after else int(row[1])


def _counted(cursor: BinaryCursor, kind: str, namespace: str) -> _Count:
    query = f"""
        SELECT coalesce((SELECT version FROM objects_counter WHERE id = 1), 0),
            (SELECT count(*) FROM {object_table(kind).name} WHERE kind = %s AND (%s = '' OR namespace = %s))"""
    row = cursor.run(query, (kind, namespace, namespace)).fetchone()
    assert row is not None, "the query has a row"
    return _Count(*row)

"""The change log: partitions made ahead and dropped, and reading it in order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from apps.objects import sealing
from apps.objects.arrays import BinaryCursor
from apps.objects.compression import compression
from controlplane.meta import Ref
from controlplane.state import Change

TABLE = "objects_changelog"
PARTITION_VERSIONS = 1_000_000
KEEP = timedelta(days=30)
KEEP_VERSIONS = 20_000_000

_PARTITIONS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'objects_changelog'::regclass"""
_CHANGES = f"""
    SELECT version, type, kind, namespace, name, textsend(doc), textsend(old_doc), actor, reason, cause, at
    FROM {TABLE} WHERE version > %s ORDER BY version LIMIT %s"""
_OLDEST = f"""
    SELECT min(split_part(name::text, '_', 3)::bigint) - 1, (SELECT floor FROM objects_origin WHERE id = 1)
    FROM ({_PARTITIONS}) partitions(name)"""

# Up to which version (exclusive) this process knows partitions to be there, per database.
_ends: dict[str, int] = {}


def has_room(version: int) -> bool:
    """Return whether this process knows that the log takes a tenth of a partition beyond a version."""
    return version + PARTITION_VERSIONS // 10 < _ends.get(str(connection.settings_dict["NAME"]), 0)


def make_room(cursor: BinaryCursor, version: int) -> None:
    """Make sure the log takes versions up to `version`, and the next partition is made before it is needed.

    Called under the write lock, so two never make the same one.
    """
    database, ahead = str(connection.settings_dict["NAME"]), version + PARTITION_VERSIONS // 10
    found = partitions(cursor)
    end = found[-1][1] if found else 1
    while end <= ahead:
        end = _make_partition(cursor, end)
    _ends[database] = end


def forget() -> None:
    """Look at the partitions anew, after somebody else changed them."""
    _ends.clear()


def _make_partition(cursor: BinaryCursor, start: int) -> int:
    end = start + PARTITION_VERSIONS
    name = f"{TABLE}_{start}_{end}"
    # ATTACH lets readers of the log go on, which CREATE … PARTITION OF would not.
    cursor.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING ALL)")
    compress: Any = compression(name, "doc", "old_doc")
    cursor.execute(compress)
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")
    return end


def partitions(cursor: BinaryCursor) -> list[tuple[int, int, str]]:
    """Return (first version, version behind the last, table) of every partition, in order."""
    names = [row[0] for row in cursor.execute(_PARTITIONS)]
    return sorted((int(name.split("_")[-2]), int(name.split("_")[-1]), name) for name in names)


def trim(cursor: BinaryCursor, *, now: datetime, newest: int, keep: timedelta, keep_versions: int) -> int:
    """Drop partitions of which everything is older than `keep`, or than `keep_versions` versions. Returns how many.

    Versions that a restore left out do not count.
    """
    dropped, found = 0, partitions(cursor)
    for place, (_, end, name) in enumerate(found[:-1]):
        if end > newest:
            break
        newer = sum(min(stop - 1, newest) - start + 1 for start, stop, _ in found[place + 1 :] if start <= newest)
        query: Any = f"SELECT at FROM {name} ORDER BY version DESC LIMIT 1"
        last = cursor.execute(query).fetchone()
        aged = last is None or last[0] < now - keep
        if not aged and newer <= keep_versions:
            break
        statement: Any = f"DROP TABLE {name}"
        cursor.execute(statement)
        dropped += 1
    return dropped


def begin_after(cursor: BinaryCursor, version: int) -> None:
    """Let the log go on after a version far beyond the newest one. The write lock is held."""
    _make_partition(cursor, version + 1)
    forget()


def oldest(cursor: BinaryCursor) -> int:
    """Return the oldest version after which every change is in the log and belongs to the present history.

    What was written before a restore is kept, but clients may have seen other changes under the same versions.
    """
    row = cursor.run(_OLDEST).fetchone()
    return 0 if row is None else max(row[0] or 0, row[1] or 0)


def changes(cursor: BinaryCursor, since: int, *, limit: int) -> list[Change]:
    """Return the lines after a version, in order."""
    return [
        Change(version, type_, Ref(kind, namespace, name), *opened_both(kind, doc, old_doc), actor, reason, cause, at)
        for version, type_, kind, namespace, name, doc, old_doc, actor, reason, cause, at in cursor.run(
            _CHANGES, (since, limit)
        )
    ]


def opened_both(kind: str, doc: bytes, old_doc: bytes | None) -> tuple[bytes, bytes | None]:
    """Return the documents of a line as they were served."""
    if kind not in sealing.KINDS:
        return doc, old_doc
    return sealing.opened(kind, doc), None if old_doc is None else sealing.opened(kind, old_doc)

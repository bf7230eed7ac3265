"""The change log: creating partitions in advance, dropping old ones, and reading changes in order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from apps.objects import encryption
from apps.objects.arrays import BinaryCursor
from apps.objects.compression import compression
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Change

TABLE = "objects_changelog"
PARTITION_VERSIONS = 1_000_000

# While a change of partitions waits for a lock, all later statements on the log wait behind it.
_SHORTLY: Final = "SET LOCAL lock_timeout = '100ms'"
_MAKING: Final = 0x4C0B0A7  # advisory lock of the process that creates partitions
_MAKE_ALONE = "SELECT pg_advisory_xact_lock(%s)"
_MAKE_IF_ALONE = "SELECT pg_try_advisory_xact_lock(%s)"
_SIZE = "SELECT sum(pg_total_relation_size(c::regclass))::bigint FROM unnest(%s::text[]) AS c"

_PARTITIONS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'objects_changelog'::regclass"""
_CHANGES = f"""
    SELECT version, type, kind, namespace, name, textsend(doc), textsend(old_doc), actor, reason, cause, at
    FROM {TABLE} WHERE version > %s ORDER BY version LIMIT %s"""
_OLDEST = f"""
    SELECT min(split_part(name::text, '_', 3)::bigint) - 1, (SELECT floor FROM objects_origin WHERE id = 1)
    FROM ({_PARTITIONS}) partitions(name)"""

# By database: the version, exclusive, up to which this process knows that partitions exist.
_ends: dict[str, int] = {}


def reaches(version: int) -> bool:
    """Return whether this process knows that the log has a partition for a version."""
    return version < _ends.get(_database(), 0)


def has_room(version: int) -> bool:
    """Return whether this process knows of partitions up to a tenth of a partition beyond a version."""
    return reaches(version + PARTITION_VERSIONS // 10)


def make_room(cursor: BinaryCursor, version: int) -> None:
    """Make sure that the log has a partition for a version. The caller holds the write lock.

    Usually `extend` has created the partition long before, and this function only finds it.
    """
    existing = partitions(cursor)
    if not existing or existing[-1][1] <= version:
        cursor.run(_MAKE_ALONE, (_MAKING,))
        existing = partitions(cursor)  # meanwhile another process may have created them
    end = existing[-1][1] if existing else 1
    while end <= version:
        end = _make_partition(cursor, end)
    _ends[_database()] = end


def extend(cursor: BinaryCursor, version: int) -> None:
    """Create partitions ahead of a version, so that none has to be created under the write lock.

    The caller's transaction does not hold the write lock. Raises OperationalError if another session locks the log.
    """
    cursor.execute(_SHORTLY)
    (alone,) = cursor.run(_MAKE_IF_ALONE, (_MAKING,)).fetchone() or (False,)
    existing = partitions(cursor)
    end = existing[-1][1] if existing else 1
    while alone and end <= version + PARTITION_VERSIONS // 10:
        end = _make_partition(cursor, end)
    _ends[_database()] = end


def _database() -> str:
    return str(connection.settings_dict["NAME"])


def forget() -> None:
    """Forget which partitions exist, because another transaction may have changed them."""
    _ends.clear()


def _make_partition(cursor: BinaryCursor, start: int) -> int:
    end = start + PARTITION_VERSIONS
    name = f"{TABLE}_{start}_{end}"
    # ATTACH does not block readers of the log. CREATE … PARTITION OF would.
    cursor.execute(f"CREATE TABLE {name} (LIKE {TABLE} INCLUDING ALL)")
    compress: Any = compression(name, "doc", "old_doc")
    cursor.execute(compress)
    cursor.execute(f"ALTER TABLE {TABLE} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")
    return end


def partitions(cursor: BinaryCursor) -> list[tuple[int, int, str]]:
    """Return (first version, last version + 1, table) of every partition, in order."""
    names = [row[0] for row in cursor.execute(_PARTITIONS)]
    return sorted((int(name.split("_")[-2]), int(name.split("_")[-1]), name) for name in names)


def droppable(
    cursor: BinaryCursor,
    *,
    now: datetime,
    newest: int,
    keep: timedelta | None,
    keep_versions: int | None,
    keep_bytes: int | None,
) -> list[str]:
    """Return the partitions that can be dropped, oldest first. The newest partition is never among them.

    A partition can be dropped if all its changes are older than `keep`, or more than `keep_versions` versions back, or
    if the log is larger than `keep_bytes`. None: no such limit. Versions that a restore skipped do not count.
    """
    existing = partitions(cursor)
    size = _size(cursor, [name for _, _, name in existing]) if keep_bytes is not None else 0
    names: list[str] = []
    for place, (_, end, name) in enumerate(existing[:-1]):
        if end > newest:
            break
        newer = sum(min(stop - 1, newest) - start + 1 for start, stop, _ in existing[place + 1 :] if start <= newest)
        query: Any = f"SELECT at FROM {name} ORDER BY version DESC LIMIT 1"
        last = cursor.execute(query).fetchone()
        aged = last is None or (keep is not None and last[0] < now - keep)
        far_back = keep_versions is not None and newer > keep_versions
        too_large = keep_bytes is not None and size > keep_bytes
        if not (aged or far_back or too_large):
            break
        size -= _size(cursor, [name]) if keep_bytes is not None else 0
        names.append(name)
    return names


def drop(cursor: BinaryCursor, name: str) -> None:
    """Drop a partition, and the changes of row-native values up to its end. The caller does not hold the write lock.

    Raises OperationalError if another session, for example a backup, is reading the log and does not end in time.
    """
    cursor.execute(_SHORTLY)
    statement: Any = f"DROP TABLE IF EXISTS {name}"
    cursor.execute(statement)
    cursor.run("DELETE FROM objects_rowchange WHERE version < %s", (int(name.split("_")[-1]),))


def _size(cursor: BinaryCursor, names: list[str]) -> int:
    row = cursor.execute(_SIZE, (names,)).fetchone()
    return int(row[0] or 0) if row is not None else 0


def begin_after(cursor: BinaryCursor, version: int) -> None:
    """Create the partition behind a version that is far beyond the newest one. The caller holds the write lock."""
    _make_partition(cursor, version + 1)
    forget()


def oldest(cursor: BinaryCursor) -> int:
    """Return the oldest version after which the log has every change of the present history.

    Changes from before a restore are kept but do not count: clients may have seen other changes with these versions.
    """
    row = cursor.run(_OLDEST).fetchone()
    return 0 if row is None else max(row[0] or 0, row[1] or 0)


def changes(cursor: BinaryCursor, since: int, *, limit: int) -> list[Change]:
    """Return the changes after a version, in order."""
    return [
        Change(version, type_, Ref(kind, *place), *opened_both(kind, type_, doc, old_doc), actor, reason, cause, at)
        for version, type_, kind, *place, doc, old_doc, actor, reason, cause, at in cursor.run(_CHANGES, (since, limit))
    ]


def opened_both(
    kind: str, type_: str, doc: bytes, old_doc: bytes | None, opening: encryption.Opening = encryption.opened
) -> tuple[bytes, bytes | None]:
    """Return the new and the old document of a change as they were served. `opening`: how the new one is decrypted.

    A watch shows no values of what an object was before, and clients need none of one that is removed. So a lost key is
    an error only if it is that of the new document.
    """
    if kind not in encryption.KINDS:
        return doc, old_doc
    new = encryption.legible(kind, doc) if type_ == "DELETED" else opening(kind, doc)
    return new, None if old_doc is None else encryption.legible(kind, old_doc)

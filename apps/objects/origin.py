"""The origin of the database: the PostgreSQL server that keeps it, and whether it was restored from a backup.

The origin is stored at the first start and compared at each later start (`controlplane.engine.restored`). After a
restore the counter of versions is raised far beyond every version that clients may have seen, and writes to members are
paused. That happens under the write lock, so that only the first of several processes does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from django.db import Error, transaction
from psycopg import Error as ServerError

from apps.objects import change_log, due
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.due import WRITE_LOCK
from apps.objects.refusal import Unusable
from apps.objects.transaction import CHANGES_CHANNEL
from controlplane.engine import restored
from controlplane.engine.restored import Finding, Origin, RestoreHold, VersionMark
from controlplane.settings import Settings

_EPOCHS = 1_000_000  # added to the epochs of all leases, so that processes from before a restore can no longer write

_STATE = f"""
    SELECT coalesce(c.version, 0), (SELECT at FROM {change_log.TABLE} ORDER BY version DESC LIMIT 1), clock_timestamp(),
        o.installation, o.system, o.timeline, o.database, o.held_since, o.held_for, o.confirmed
    FROM (SELECT 1) one
    LEFT JOIN objects_counter c ON c.id = 1 LEFT JOIN objects_origin o ON o.id = 1"""
_ORIGIN = """
    SELECT s.system_identifier::text,
        CASE WHEN pg_is_in_recovery() THEN 0
        ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint END,
        d.oid::bigint
    FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()"""
_DATABASE = "SELECT '', 0, oid::bigint FROM pg_database WHERE datname = current_database()"
_STATE_AND = f"SELECT * FROM ({_STATE}) AS state, ({{}}) AS origin"
_BEGIN = """
    INSERT INTO objects_origin (id, installation, system, timeline, database, floor, held_for)
    VALUES (1, gen_random_uuid()::text, %s, %s, %s, 0, '') ON CONFLICT (id) DO NOTHING"""
_MOVED = "UPDATE objects_origin SET system = %s, timeline = %s, database = %s WHERE id = 1"
_RAISE = """
    INSERT INTO objects_counter (id, version) VALUES (1, %s)
    ON CONFLICT (id) DO UPDATE SET version = excluded.version"""
_FLOOR = "UPDATE objects_origin SET floor = %s WHERE id = 1"
_HOLD = """
    UPDATE objects_origin SET held_since = clock_timestamp(), held_for = %s, confirmed = false WHERE id = 1"""
_FENCE_OFF = "UPDATE objects_lease SET epoch = epoch + %s"
_NOTIFY = "SELECT pg_notify(%s, %s)"
HELD = "SELECT held_since, held_for, confirmed FROM objects_origin WHERE id = 1 AND held_since IS NOT NULL"
# xmin is the transaction that wrote the row last. The version alone would be the same after a transaction that ended
# without a commit and another one.
_SEEN = """
    SELECT c.version, c.xmin::text, o.held_since, o.held_for, o.confirmed
    FROM objects_counter c LEFT JOIN objects_origin o ON o.id = 1 AND o.held_since IS NOT NULL WHERE c.id = 1"""
_UNKNOWN = (
    "the database is on another server than before, and Redis, which remembers its newest resourceVersion, does not "
    "answer. Start Redis again; if the database was restored from a backup, run: manage.py restored"
)
_CONFIRM = "UPDATE objects_origin SET confirmed = true WHERE id = 1 AND held_since IS NOT NULL"
_RELEASE = """
    UPDATE objects_origin SET held_since = NULL, held_for = '', confirmed = false
    WHERE id = 1 AND confirmed AND held_since = %s"""


class OriginUnknown(Unusable):
    """The database is on another server than before, and Redis, which knows whether it is complete, does not answer.

    Like a database that is away, it is asked again a moment later.
    """


class Remembered(NamedTuple):
    """What is known about an installation outside of its database.

    `beyond`: the newest version of any of its copies, also of those that were restored and not confirmed. It says
    nothing about this database, but clients may have seen it, so a raise goes beyond it.
    """

    newest: VersionMark | None  # None: nothing
    redis_away: bool = False  # Redis did not answer, so it may know a newer version
    beyond: int = 0


class State(NamedTuple):
    """The state of the database now."""

    version: int
    written_at: datetime | None  # None: the change log is empty
    now: datetime
    installation: str  # the same in every copy and backup of this database; "": the database is new
    kept: Origin | None  # the origin as it is stored; None: the database is new
    found: Origin  # the origin as the server reports it
    held: RestoreHold | None  # why writes to members are paused; None: they are not


class Look(NamedTuple):
    """The result of comparing the origin, and the state of the database afterwards."""

    finding: Finding
    state: State


def state() -> State:
    """Return the state of the database, by one statement."""
    *stored, system, timeline, database = _with_origin(_STATE_AND)
    return _state(stored, Origin(system, timeline, database))


def look(remembered: Callable[[State], Remembered]) -> Look:
    """Find out whether the database was restored or moved; if so, raise the counter and pause writes to members.

    `remembered` returns what is known outside of the database about the installation of a state. Raises OriginUnknown
    if that is not enough to tell.
    """
    now = state()
    seen = remembered(now) if now.installation else Remembered(None)
    finding = _judged(now, seen)
    if finding.verdict == "Same" and now.kept is not None:
        return Look(finding, now)
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(_BEGIN, tuple(_fields(now.found)))
        cursor.run(WRITE_LOCK)
        again = _read(cursor, now.found)
        finding = _judged(again, seen)
        if finding.verdict != "Same":
            newest = 0 if seen.newest is None else seen.newest.version
            _go_beyond(cursor, max(again.version, newest, seen.beyond), again.found, finding.why)
        return Look(finding, _read(cursor, now.found))


def declare_restored(why: str, *, beyond: int = 0) -> State:
    """Act as after a restore, on the order of a user. `beyond`: the counter is raised beyond this version as well."""
    found = _origin()
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(_BEGIN, tuple(_fields(found)))
        cursor.run(WRITE_LOCK)
        _go_beyond(cursor, max(_read(cursor, found).version, beyond), found, why)
        return _read(cursor, found)


def held() -> RestoreHold | None:
    """Return since when, and why, writes to members are paused; None: they are not."""
    with binary_cursor() as cursor:
        row = cursor.run(HELD).fetchone()
    return None if row is None else RestoreHold(*row)


def seen() -> tuple[object, ...] | None:
    """Return a value that changes with every write of an object and with the pause of writes; None: nothing is stored.

    A process that has read objects under this value need not read them again while it is the same.
    """
    with binary_cursor() as cursor:
        row: tuple[object, ...] | None = cursor.run(_SEEN).fetchone()
    return row


def confirm() -> bool:
    """Let Works be made from what changed while writes to members were paused. Return whether they are paused."""
    with binary_cursor() as cursor:
        return cursor.run(_CONFIRM).rowcount > 0


def unprepared(settings: Settings) -> int:
    """Return how many objects are still due for the controllers that make Works. Disabled controllers do not count."""
    with binary_cursor() as cursor:
        return due.count_due(cursor, [name for name in restored.PREPARING if settings.runs(name)])


def release(confirmed: RestoreHold) -> bool:
    """End the pause of writes to members that was confirmed. Return whether it was still this one.

    The database may have been restored again meanwhile. That needs a confirmation of its own.
    """
    with binary_cursor() as cursor:
        return cursor.run(_RELEASE, (confirmed.since,)).rowcount > 0


def _judged(state: State, seen: Remembered) -> Finding:
    """Return whether the database was restored or moved. Raises OriginUnknown."""
    finding = restored.detect_restore(
        state.kept,
        state.found,
        version=state.version,
        written_at=state.written_at,
        seen=seen.newest,
        redis_away=seen.redis_away,
    )
    if finding.verdict == "Unknown":
        raise OriginUnknown(_UNKNOWN)
    return finding


def _go_beyond(cursor: BinaryCursor, version: int, found: Origin, why: str) -> None:
    """Raise the counter far beyond `version`. A watch cannot start from a version before that any more.

    `why`: the reason to pause writes to members; "": they are not paused. The caller holds the write lock.
    """
    target = restored.raised_version(version)
    change_log.begin_after(cursor, target)
    cursor.run(_RAISE, (target,))
    cursor.run(_MOVED, tuple(_fields(found)))
    cursor.run(_FLOOR, (target,))
    if why:
        cursor.run(_HOLD, (why,))
    cursor.run(_FENCE_OFF, (_EPOCHS,))
    cursor.run(_NOTIFY, (CHANGES_CHANNEL, str(target)))


def _read(cursor: BinaryCursor, found: Origin) -> State:
    row = cursor.run(_STATE).fetchone()
    assert row is not None
    return _state(row, found)


def _state(row: Sequence[Any], found: Origin) -> State:
    version, written_at, now, installation, system, timeline, database, *hold = row
    kept = None if installation is None else Origin(system, timeline, database)
    return State(
        version, written_at, now, installation or "", kept, found, None if hold[0] is None else RestoreHold(*hold)
    )


def _origin() -> Origin:
    return Origin(*_with_origin("{}"))


def _with_origin(statement: str) -> tuple[Any, ...]:
    """Return the row of a statement with the origin in it, as far as the server reveals that to our role."""
    for query in (_ORIGIN, _DATABASE):
        try:
            with binary_cursor() as cursor:
                row: tuple[Any, ...] | None = cursor.run(statement.format(query)).fetchone()
        except Error as error:
            if query is _DATABASE or not _is_refusal(error):
                raise
            continue
        assert row is not None
        return row
    raise AssertionError("unreachable")


def _is_refusal(error: Error) -> bool:
    """Return whether the server does not have a function, or does not allow the role of this process to call it."""
    cause = error.__cause__
    return isinstance(cause, ServerError) and (cause.sqlstate or "")[:2] in ("0A", "42")


def _fields(origin: Origin) -> list[Any]:
    return [origin.system, origin.timeline, origin.database]

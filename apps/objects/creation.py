"""Creation: a transaction that only creates objects is one statement, which PostgreSQL commits by itself.

It takes the write lock and the versions, writes objects, change log, row-native values and due rows, and notifies. So
the lock is held while PostgreSQL works and never while this process does. Nothing has to be compared under the lock:
an object that exists already is reported as UniqueViolation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from apps.objects import due
from apps.objects.arrays import BinaryCursor, bigints, texts
from apps.objects.batch import Batch, Item
from apps.objects.statements import Prepared
from apps.objects.tables import ObjectTable
from controlplane.engine.decision import Decision, Put, Save
from controlplane.kinds import NAMESPACE

# All other parts read `base` or `locked_at`, so each of them begins when the lock is held. The order of versions is the
# order of commits because the row stays locked until then.
_LOCKED: Final = """
    WITH locked AS (
        INSERT INTO objects_counter (id, version) VALUES (1, %s)
        ON CONFLICT (id) DO UPDATE SET version = objects_counter.version + excluded.version
        RETURNING version, version - %s::bigint AS base, clock_timestamp() AS locked_at
    )"""
# Fails unless each namespace is stored in the version in which it was seen. A namespace that ends has another one. FOR
# SHARE reads the newest state: the statement's snapshot is older than the lock, and a namespace may have changed since.
_SAME_NAMESPACES: Final = f"""objects_written('namespaces', %s, (
        SELECT count(*) FROM unnest(%s, %s) AS seen(name, version) CROSS JOIN LATERAL (
            SELECT 1 FROM objects_object o
            WHERE o.kind = '{NAMESPACE}' AND o.namespace = '' AND o.name = seen.name
              AND o.resource_version = seen.version LIMIT 1 FOR SHARE) AS same
    ), %s)"""
MOST_KEPT: Final = 256  # statements: each set of tables has its own


class CreationAnswer(NamedTuple):
    """What the database says of a creation: the newest version before it, when it got the lock, and how it waited."""

    base: int
    at: datetime
    waited: timedelta  # for the lock


def creates_only(items: Sequence[Item]) -> bool:
    """Test whether decisions do nothing but create objects and save row-native values."""
    return all(item.claim is None and not item.event_refs and _creates(item.decision) for item in items)


def _creates(decision: Decision) -> bool:
    if decision.guards or decision.capacity_guards or decision.quota_guards:  # they are checked under the lock
        return False
    return all(
        isinstance(change, Save) or (isinstance(change, Put) and change.old is None) for change in decision.changes
    )


def is_whole(prepared: Prepared) -> bool:
    """Test whether all rows of a batch that creates can be written by its statement. Child rows cannot."""
    return bool(prepared.settled.lines) and all(other.locked for other in prepared.other_rows)


def create(raw: Any, batch: Batch, prepared: Prepared, *, channel: str) -> CreationAnswer:
    """Write a batch for which `creates_only` and `is_whole` hold, and commit it.

    `channel`: on which the newest version is sent. Raises UniqueViolation if an object exists already, and
    CheckViolation if the change log has no partition for the versions. Then nothing is written.
    """
    row = BinaryCursor(raw).run(*statement(batch, prepared, channel=channel)).fetchone()
    assert row is not None, "the statement returns a row"
    return CreationAnswer(*row[:3])


def statement(
    batch: Batch, prepared: Prepared, *, channel: str, namespaces: Mapping[str, int] | None = None
) -> tuple[str, list[Any]]:
    """Return the statement of a batch with its parameters.

    `namespaces`: versions of namespaces by name. The statement fails, and nothing is written, if one of them is not
    stored in its version any more. None: no namespace is looked at.
    """
    count, marks = len(prepared.settled.lines), prepared.marks
    query = _statement(
        tuple(group.table for group in prepared.groups),
        tuple(other.locked for other in prepared.other_rows),
        has_marks=bool(marks.rows),
        has_namespaces=namespaces is not None,
    )
    params: list[Any] = [count, count]
    for group in prepared.groups:
        params += (*group.columns, group.actor)
    for other in prepared.other_rows:
        params += other.columns
    params += marks.columns if marks.rows else ()
    params.append(channel)
    if marks.rows:
        params += (due.CHANNEL, due.announced(prepared.settled.marks))
    params += (group.lines for group in prepared.groups)
    if namespaces is not None:
        params += (len(namespaces), texts(namespaces), bigints(namespaces.values()), len(namespaces))
    return query, params


@lru_cache(maxsize=MOST_KEPT)
def _statement(
    tables: tuple[ObjectTable, ...], others: tuple[str, ...], *, has_marks: bool, has_namespaces: bool
) -> str:
    """Return the statement that inserts into these tables and runs these other insertions."""
    parts, checks = [_LOCKED], list[str]()
    for place, table in enumerate(tables):
        part, check = table.creation(place)
        parts.append(part)
        checks.append(check)
    parts += (f"other{place} AS ({other})" for place, other in enumerate(others))
    parts += (f"marked AS ({due.MARK_LOCKED})",) if has_marks else ()
    checks += (_SAME_NAMESPACES,) if has_namespaces else ()
    notified = ["pg_notify(%s, version::text)", *(["pg_notify(%s, %s)"] if has_marks else [])]
    answers = ("base", "locked_at", "locked_at - statement_timestamp()", *notified, *checks)
    return f"{', '.join(parts)} SELECT {', '.join(answers)} FROM locked"

"""Due rows: who has to look at what, and when. One row per controller and object.

Marking gives a row a new `seq`; finishing removes it only where `seq` is still the one that was claimed, so a mark made
meanwhile is never lost; and it begins a fan-out anew, whose chunks so far did not see it. Whoever waits for rows of
others here holds the write lock; claiming never waits.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from apps.objects.arrays import Array, BinaryCursor, bigints, booleans, moments, texts
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Claim, Claims, Mark

WRITE_LOCK = "SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE"

_MARK = """
    INSERT INTO objects_due AS d (controller, kind, namespace, name, hash, due_at, seq, cursor)
    SELECT controller, kind, namespace, name, hash,
        coalesce(%s, clock_timestamp()) + later * interval '1 millisecond', nextval('objects_due_mark'), ''
    FROM unnest(%s, %s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, hash, later)
    ON CONFLICT (controller, kind, namespace, name)
    DO UPDATE SET seq = excluded.seq, due_at = least(d.due_at, excluded.due_at), cursor = ''"""
_SAME = "d.controller = w.controller AND d.kind = w.kind AND d.namespace = w.namespace AND d.name = w.name"
_REMOVE = f"""
    DELETE FROM objects_due d USING unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq)
    WHERE {_SAME} AND d.seq = w.seq"""
_GIVE_BACK = f"""
    UPDATE objects_due d SET lease_until = NULL,
        due_at = CASE WHEN w.lost THEN %s WHEN d.seq = w.seq THEN coalesce(w.wake_at, d.due_at) ELSE d.due_at END
    FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq, wake_at, lost)
    WHERE {_SAME}"""
_DUE_NOW = """due_at <= clock_timestamp() AND (lease_until IS NULL OR lease_until <= clock_timestamp())"""
_LOOK = f"""
    SELECT kind, namespace, name, seq, cursor, due_at, clock_timestamp() FROM objects_due
    WHERE lower(controller) = %s AND {_DUE_NOW} AND hash %% %s = %s
    ORDER BY due_at, seq LIMIT %s"""
_CLAIM = f"""
    WITH picked AS (
        SELECT id FROM objects_due
        WHERE lower(controller) = %s AND {_DUE_NOW} AND hash %% %s = %s
        ORDER BY due_at, seq LIMIT %s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE objects_due d SET lease_until = clock_timestamp() + %s * interval '1 second'
    FROM picked WHERE d.id = picked.id
    RETURNING d.kind, d.namespace, d.name, d.seq, d.cursor, d.due_at, clock_timestamp()"""
_RELEASE = f"""
    UPDATE objects_due d SET lease_until = NULL, due_at = coalesce(%s, clock_timestamp())
    FROM unnest(%s, %s, %s, %s) AS w(controller, kind, namespace, name) WHERE {_SAME}"""
_EXTEND = f"""
    UPDATE objects_due d SET lease_until = clock_timestamp() + %s * interval '1 second'
    FROM unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, ends)
    WHERE {_SAME} AND d.lease_until IS NOT NULL AND w.ends > clock_timestamp()"""
_FREE = """
    UPDATE objects_due d SET lease_until = NULL FROM unnest(%s, %s) AS w(controller, shards)
    WHERE lower(d.controller) = w.controller AND d.lease_until IS NOT NULL AND d.hash %% w.shards = %s
      AND d.lease_until <= coalesce(%s, 'infinity'::timestamptz)"""
_WITH_WORK = f"""
    SELECT w.name FROM unnest(%s, %s) AS w(name, shards) WHERE EXISTS (
        SELECT 1 FROM objects_due WHERE lower(controller) = w.name AND {_DUE_NOW} AND hash %% w.shards = %s
    )"""
_NEXT = """
    SELECT min(CASE WHEN lease_until IS NULL OR lease_until <= clock_timestamp() THEN due_at
                    ELSE greatest(lease_until, due_at) END)
    FROM objects_due WHERE lower(controller) = ANY(%s)"""
_WHICH = "controller = %s AND kind = %s AND namespace = %s AND name = %s"
_CURSOR = f"UPDATE objects_due SET lease_until = NULL, cursor = CASE WHEN seq = %s THEN %s ELSE '' END WHERE {_WHICH}"
_END = f"DELETE FROM objects_due WHERE {_WHICH} AND seq = %s"


CHANNEL = "due"  # payload: names of the controllers with new work, separated by commas


_MILLISECOND = timedelta(milliseconds=1)

Query = tuple[str, Sequence[Any]]


class Marks(NamedTuple):
    """Rows to mark, packed; sorted, so that rows are always locked in one order."""

    rows: int
    columns: list[Array]


class Finish(NamedTuple):
    """The end of one claim. `lost`: its decision was dropped, it is due again at once."""

    claim: Claim
    wake_at: datetime | None
    lost: bool


class Ends(NamedTuple):
    """Ends of claims, sorted as marks are. Most are simply over: packed when it turns out that others are not."""

    done: int
    removed: list[Array]
    all: Sequence[Finish]


def shard_hash(ref: Ref) -> int:
    """Return what a reference's shard is computed from. It is equal in every process and in MemoryStore."""
    return zlib.crc32(str(ref).encode())


def pack_marks(marks: Iterable[Mark]) -> Marks:
    """Return marks ready for `marking`; of several for the same, the earliest."""
    found = {(mark.controller, mark.ref): mark.after // _MILLISECOND for mark in sorted(set(marks), reverse=True)}
    ordered = sorted(found)
    refs = [ref for _, ref in ordered]
    hashes, later = bigints([shard_hash(ref) for ref in refs]), bigints([found[one] for one in ordered])
    return Marks(len(ordered), [texts([name for name, _ in ordered]), *_columns(refs), hashes, later])


def _columns(refs: Sequence[Ref]) -> list[Array]:
    return [
        texts([ref.kind for ref in refs]),
        texts([ref.namespace for ref in refs]),
        texts([ref.name for ref in refs]),
    ]


def marking(marks: Marks, *, at: datetime | None) -> list[Query]:
    """Return what makes rows due at a moment, None at once, and as much later as each says; an earlier due time wins.
    Run it under the write lock."""
    return [(_MARK, (at, *marks.columns))] if marks.rows else []


def pack_ends(ends: Sequence[Finish]) -> Ends:
    """Return the ends of claims ready for `finishing`."""
    ordered = sorted(ends, key=lambda end: (end.claim.controller, end.claim.ref))
    done = [end for end in ordered if end.wake_at is None and not end.lost]
    return Ends(len(done), [*_claimed(done), bigints([end.claim.seq for end in done])], ordered)


def finishing(ends: Ends, *, at: datetime, leased: bool) -> list[Query]:
    """Return what ends claims: rows go, or wait for `wake_at`, unless they were marked meanwhile; those stay as they
    are, and are free again where claims are `leased`. Run it under the write lock."""
    queries: list[Query] = []
    if ends.done:
        queries.append((_REMOVE, ends.removed))
    if rest := ends.all if leased else [end for end in ends.all if end.wake_at is not None or end.lost]:
        wakes, losses = moments([end.wake_at for end in rest]), booleans([end.lost for end in rest])
        queries.append((_GIVE_BACK, (at, *_claimed(rest), bigints([end.claim.seq for end in rest]), wakes, losses)))
    return queries


def _claimed(ends: Sequence[Finish]) -> list[Array]:
    return [texts([end.claim.controller for end in ends]), *_columns([end.claim.ref for end in ends])]


def claim(
    cursor: BinaryCursor, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float
) -> Claims:
    """Return due rows, oldest first, leased; see `Store.claim`. A transaction of its own that waits for nobody."""
    which = (controller, shards, shard, limit)
    rows = cursor.run(*((_CLAIM, (*which, lease_seconds)) if lease_seconds else (_LOOK, which))).fetchall()
    if not rows:
        nothing = cursor.run("SELECT clock_timestamp()").fetchone()
        assert nothing is not None
        return Claims(nothing[0], ())
    rows.sort(key=lambda row: (row[5], row[3]))
    claims = (
        Claim(controller, Ref(kind, namespace, name), seq, cursor_text)
        for kind, namespace, name, seq, cursor_text, *_ in rows
    )
    return Claims(max(row[6] for row in rows), tuple(claims))


def release(cursor: BinaryCursor, claims: Sequence[Claim], *, due_at: datetime | None) -> None:
    """Give claims back. The write lock is held."""
    ordered = sorted(claims, key=lambda one: (one.controller, one.ref))
    columns = [texts([one.controller for one in ordered]), *_columns([one.ref for one in ordered])]
    cursor.run(_RELEASE, (due_at, *columns))


def extend(cursor: BinaryCursor, claims: Sequence[tuple[Claim, datetime]], *, lease_seconds: float) -> datetime:
    """Extend claims by `lease_seconds` from now; return now. A claim that ended before, as it says, may be somebody
    else's by now and stays as it is. The write lock is held."""
    ordered = sorted(claims, key=lambda one: (one[0].controller, one[0].ref))
    columns = [texts([one.controller for one, _ in ordered]), *_columns([one.ref for one, _ in ordered])]
    cursor.run(_EXTEND, (lease_seconds, *columns, moments([ends for _, ends in ordered])))
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


def free(cursor: BinaryCursor, shards: Mapping[str, int], *, shard: int, until: datetime | None) -> None:
    """Make claimed rows of a shard claimable at once; `shards`: into how many each controller is split; `until`: only
    claims that run out by then. The write lock is held."""
    cursor.run(_FREE, (texts(list(shards)), bigints(list(shards.values())), shard, until))


def end_chunk(cursor: BinaryCursor, claim: Claim, *, to: str | None) -> None:
    """Keep how far a fan-out has come, or end it; one that was marked meanwhile starts anew. The write lock is held."""
    which = (claim.controller, *claim.ref)
    if to is not None or not cursor.run(_END, (*which, claim.seq)).rowcount:
        cursor.run(_CURSOR, (claim.seq, to or "", *which))


def with_work(cursor: BinaryCursor, shards: Mapping[str, int], *, shard: int) -> set[str]:
    """Return the controllers that may claim something now; `shards`: into how many each is split."""
    rows = cursor.run(_WITH_WORK, (texts(list(shards)), bigints(list(shards.values())), shard))
    return {name for (name,) in rows}


def next_due(cursor: BinaryCursor, controllers: Collection[str]) -> datetime | None:
    """Return when the earliest row of these controllers may be claimed."""
    row = cursor.run(_NEXT, (texts(controllers),)).fetchone()
    return None if row is None else row[0]


def notify(cursor: BinaryCursor, controllers: Collection[str]) -> None:
    """Tell listeners, with the commit, that these controllers have new work."""
    cursor.run("SELECT pg_notify(%s, %s)", (CHANNEL, ",".join(sorted(controllers))))

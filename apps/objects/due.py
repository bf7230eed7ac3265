"""Due rows: which controller has to look at which object, and when. One row per controller and object, or a bundle.

A bundle is one row for several objects, which one write has made due (`Watch.bundled`). Its name is made up, and its
`cursor` has the references as JSON. Its objects are claimed together, and the bundle is removed when all of these
claims have ended. An object of a bundle that has to be looked at again gets a row of its own.

Marking a row gives it a new `seq`. Finishing a claim removes the row only if its `seq` is still the claimed one. So a
mark that is made while a controller works is never lost. A mark also restarts a fan-out, because the chunks that are
already done have not seen the change.

Every function that may wait for a locked row runs under the write lock, so two of them never wait for each other.
Claiming skips locked rows and waits for none.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import uuid4

import msgspec

from apps.objects.arrays import Array, BinaryCursor, bigints, booleans, moments, texts
from apps.objects.write_lock import AT
from controlplane.apimachinery.meta import Ref
from controlplane.engine.state import Claim, Claims, Mark

WRITE_LOCK = "SELECT 1 FROM objects_counter WHERE id = 1 FOR UPDATE"

_COLUMNS = "controller, kind, namespace, name"
_EARLIER_COUNTS = f"""
    ON CONFLICT ({_COLUMNS})
    DO UPDATE SET seq = excluded.seq, due_at = least(d.due_at, excluded.due_at), cursor = ''"""


def _mark_at(moment: str) -> str:
    return f"""
    INSERT INTO objects_due AS d ({_COLUMNS}, hash, due_at, seq, cursor)
    SELECT {_COLUMNS}, hash, {moment} + later * interval '1 millisecond', nextval('objects_due_mark'), cursor
    FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS w({_COLUMNS}, hash, later, cursor) {_EARLIER_COUNTS}"""


_MARK = _mark_at("coalesce(%s, clock_timestamp())")
_MARK_WRITTEN = _mark_at(AT)
MARK_LOCKED = _mark_at("(SELECT locked_at FROM locked)")  # a part of a statement, see `creation.py`
_MARK_AGAIN = f"""
    INSERT INTO objects_due AS d ({_COLUMNS}, hash, due_at, seq, cursor)
    SELECT {_COLUMNS}, hash, coalesce(wake_at, {AT}), nextval('objects_due_mark'), ''
    FROM unnest(%s, %s, %s, %s, %s, %s) AS w({_COLUMNS}, hash, wake_at) {_EARLIER_COUNTS}"""
_SAME = "d.controller = w.controller AND d.kind = w.kind AND d.namespace = w.namespace AND d.name = w.name"
_REMOVE = f"""
    DELETE FROM objects_due d USING unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq)
    WHERE {_SAME} AND d.seq = w.seq"""
_GIVE_BACK = f"""
    UPDATE objects_due d SET lease_until = NULL,
        due_at = CASE WHEN w.lost THEN {AT} WHEN d.seq = w.seq THEN coalesce(w.wake_at, d.due_at) ELSE d.due_at END
    FROM unnest(%s, %s, %s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq, wake_at, lost)
    WHERE {_SAME}"""
# The time is a subquery: no index is searched for a function whose value may change from row to row. Without it, each
# statement would read all rows of its controllers, also those that are due in minutes.
_FREE_NOW = "(lease_until IS NULL OR lease_until <= clock_timestamp())"
_DUE_NOW = f"due_at <= (SELECT clock_timestamp()) AND {_FREE_NOW}"
# PostgreSQL takes an equation of an expression to hold for 1 of 200 rows. It would then read and sort all rows of a
# controller, instead of going through the index until the first one.
_OF_SHARD = "abs(hash %% %s - %s) < 1"
_OF_ITS_SHARD = "abs(hash %% w.shards - %s) < 1"
# Both have a row with the time, and nothing else, if there is nothing to claim.
_LOOK = f"""
    SELECT found.*, clock_timestamp() FROM (SELECT 1) AS one LEFT JOIN (
        SELECT kind, namespace, name, seq, cursor, due_at FROM objects_due
        WHERE lower(controller) = %s AND {_DUE_NOW} AND {_OF_SHARD}
        ORDER BY due_at, seq LIMIT %s
    ) found ON true"""
_CLAIM = f"""
    WITH picked AS (
        SELECT id FROM objects_due
        WHERE lower(controller) = %s AND {_DUE_NOW} AND {_OF_SHARD}
        ORDER BY due_at, seq LIMIT %s
        FOR UPDATE SKIP LOCKED
    ), claimed AS (
        UPDATE objects_due d SET lease_until = clock_timestamp() + %s * interval '1 second'
        FROM picked WHERE d.id = picked.id
        RETURNING d.kind, d.namespace, d.name, d.seq, d.cursor, d.due_at
    )
    SELECT claimed.*, clock_timestamp() FROM (SELECT 1) AS one LEFT JOIN claimed ON true"""
_RELEASE = f"""
    UPDATE objects_due d SET lease_until = NULL,
        due_at = CASE WHEN d.seq = w.seq THEN coalesce(%s, clock_timestamp()) ELSE d.due_at END
    FROM unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq) WHERE {_SAME}"""
_EXTEND = f"""
    UPDATE objects_due d SET lease_until = clock_timestamp() + %s * interval '1 second'
    FROM unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, ends)
    WHERE {_SAME} AND d.lease_until IS NOT NULL AND w.ends > clock_timestamp()"""
_FREE = """
    UPDATE objects_due d SET lease_until = NULL FROM unnest(%s, %s) AS w(controller, shards)
    WHERE lower(d.controller) = w.controller AND d.lease_until IS NOT NULL AND d.hash %% w.shards = %s
      AND d.lease_until <= coalesce(%s, 'infinity'::timestamptz)"""
# Claimed rows count only before the first free row in the order of the index: a later one can be claimed later than it.
_NEXT = f"""
    SELECT min(least(free.due_at, claimed.free_at)) FROM unnest(%s) AS w(name)
    LEFT JOIN LATERAL (
        SELECT due_at FROM objects_due WHERE lower(controller) = w.name AND {_FREE_NOW} ORDER BY due_at LIMIT 1
    ) free ON true
    LEFT JOIN LATERAL (
        SELECT min(greatest(lease_until, due_at)) AS free_at FROM objects_due
        WHERE lower(controller) = w.name AND due_at < coalesce(free.due_at, 'infinity') AND NOT {_FREE_NOW}
    ) claimed ON true"""
# The same for each controller, in seconds and of one shard.
_UNTIL_DUE = f"""
    SELECT w.name, extract(epoch FROM least(free.due_at, claimed.free_at) - clock_timestamp())::float8
    FROM unnest(%s, %s) AS w(name, shards)
    LEFT JOIN LATERAL (
        SELECT due_at FROM objects_due
        WHERE lower(controller) = w.name AND {_FREE_NOW} AND {_OF_ITS_SHARD} ORDER BY due_at LIMIT 1
    ) free ON true
    LEFT JOIN LATERAL (
        SELECT min(greatest(lease_until, due_at)) AS free_at FROM objects_due
        WHERE lower(controller) = w.name AND due_at < coalesce(free.due_at, 'infinity') AND NOT {_FREE_NOW}
          AND {_OF_ITS_SHARD}
    ) claimed ON true
    WHERE free.due_at IS NOT NULL OR claimed.free_at IS NOT NULL"""
BUNDLE: Final = "Bundle"  # kind of a row that names several objects
OBJECTS: Final = f"CASE kind WHEN '{BUNDLE}' THEN json_array_length(cursor::json) ELSE 1 END"
"""SQL expression: how many objects a due row names."""

_COUNT = f"""
    SELECT coalesce(sum({OBJECTS}), 0)::bigint FROM objects_due
    WHERE lower(controller) = ANY(%s) AND due_at <= (SELECT clock_timestamp())"""
_TO_CURSOR = f"""
    UPDATE objects_due d SET lease_until = NULL, cursor = CASE WHEN d.seq = w.seq THEN %s ELSE '' END
    FROM unnest(%s, %s, %s, %s, %s) AS w(controller, kind, namespace, name, seq) WHERE {_SAME}"""


CHANNEL = "due"  # payload: controllers with new rows, separated by commas (`announced`); or a lease ("group/shard")
NOTIFY = "SELECT pg_notify(%s, %s)"
SOON = timedelta(seconds=5)  # a process that waits for rows looks for them at least this often
LATER = "~"  # before the name of a controller that has new rows, but none that is due soon


BUNDLED_FROM: Final = 8  # objects; fewer have rows of their own

_MILLISECOND = timedelta(milliseconds=1)
_references = msgspec.json.Decoder(list[tuple[str, str, str]])

Query = tuple[str, Sequence[Any]]


class Marks(NamedTuple):
    """Rows to mark, packed. They are sorted, so that rows are always locked in the same order."""

    rows: int
    columns: list[Array]


class Finish(NamedTuple):
    """The end of one claim."""

    claim: Claim
    wake_at: datetime | None  # when the object is due again; None: with the next change
    lost: bool  # the decision was dropped: the object is due again at once


class Ends(NamedTuple):
    """Ends of claims, sorted as marks are. Only the rows to remove are packed: they are the most."""

    done: int
    removed: list[Array]
    own: Sequence[Finish]  # of claims with a row of their own
    again: Sequence[Finish]  # of claims of bundled objects that are due again


def shard_hash(ref: Ref) -> int:
    """Return the number from which the shard of a reference is computed: shard = number % shards.

    The number is the same in every process and in MemoryStore.
    """
    return zlib.crc32(str(ref).encode())


def pack_marks(marks: Iterable[Mark]) -> Marks:
    """Return marks ready for `marking`. Of several marks of the same controller and object, the earliest counts.

    Delays are rounded up, so that nothing is due too early.
    """
    earliest = {(mark.controller, mark.ref): mark for mark in sorted(set(marks), reverse=True)}
    rows: list[tuple[str, Ref, int, str]] = []
    bundles: dict[tuple[str, int], list[Ref]] = {}
    for controller, ref, after, bundled in earliest.values():
        later = -(-after // _MILLISECOND)
        if bundled:
            bundles.setdefault((controller, later), []).append(ref)
        else:
            rows.append((controller, ref, later, ""))
    for (controller, later), refs in bundles.items():
        if len(refs) < BUNDLED_FROM:
            rows += [(controller, ref, later, "") for ref in refs]
        else:
            rows.append((controller, Ref(BUNDLE, "", uuid4().hex), later, msgspec.json.encode(refs).decode()))
    rows.sort()
    refs = [ref for _, ref, _, _ in rows]
    hashes, delays = bigints([shard_hash(ref) for ref in refs]), bigints([later for _, _, later, _ in rows])
    cursors = texts([cursor for _, _, _, cursor in rows])
    return Marks(len(rows), [texts([name for name, _, _, _ in rows]), *_columns(refs), hashes, delays, cursors])


def _columns(refs: Sequence[Ref]) -> list[Array]:
    return [
        texts([ref.kind for ref in refs]),
        texts([ref.namespace for ref in refs]),
        texts([ref.name for ref in refs]),
    ]


def marking(marks: Marks, *, at: datetime | None) -> list[Query]:
    """Return the statement that makes rows due at a time plus the delay of each mark. `at` None: now.

    A row that is due earlier stays so. Run the statement under the write lock.
    """
    return [(_MARK, (at, *marks.columns))] if marks.rows else []


def marking_written(marks: Marks) -> list[Query]:
    """Return the statement that makes rows due at the time of the write lock (`write_lock.AT`) plus their delays."""
    return [(_MARK_WRITTEN, marks.columns)] if marks.rows else []


def pack_ends(ends: Sequence[Finish]) -> Ends:
    """Return the ends of claims ready for `finishing`."""
    ordered = sorted(ends, key=lambda end: (end.claim.controller, end.claim.ref))
    own = [end for end in ordered if not end.claim.bundled]
    done = [end for end in own if not _is_due_again(end)]
    again = [end for end in ordered if end.claim.bundled and _is_due_again(end)]
    return Ends(len(done), [*_claimed(done), bigints([end.claim.seq for end in done])], own, again)


def _is_due_again(end: Finish) -> bool:
    return end.wake_at is not None or end.lost


def finishing(ends: Ends, *, leased: bool) -> list[Query]:
    """Return the statements that end claims: a row is removed, or is due again at `wake_at`.

    A row of a lost decision is due at the time of the write lock. One that was marked meanwhile keeps its due time.
    `leased`: the claims have leases of their own, which end too.
    Run the statements under the write lock.
    """
    queries: list[Query] = []
    if ends.done:
        queries.append((_REMOVE, ends.removed))
    if rest := ends.own if leased else [end for end in ends.own if _is_due_again(end)]:
        wakes, losses = moments([end.wake_at for end in rest]), booleans([end.lost for end in rest])
        queries.append((_GIVE_BACK, (*_claimed(rest), bigints([end.claim.seq for end in rest]), wakes, losses)))
    if ends.again:
        hashes = bigints([shard_hash(end.claim.ref) for end in ends.again])
        wakes = moments([None if end.lost else end.wake_at for end in ends.again])
        queries.append((_MARK_AGAIN, (*_claimed(ends.again), hashes, wakes)))
    return queries


def _claimed(ends: Sequence[Finish]) -> list[Array]:
    return _keys([end.claim for end in ends])


def _keys(claims: Sequence[Claim]) -> list[Array]:
    """Return the columns that identify the rows of claims."""
    return [texts([claim.controller for claim in claims]), *_columns([claim.ref for claim in claims])]


def claim(
    cursor: BinaryCursor, controller: str, *, shard: int, shards: int, limit: int, lease_seconds: float
) -> Claims:
    """Claim due rows and return them, the longest due first; see `Store.claim`.

    Run it in a transaction of its own. Rows that another process locks are skipped. Claims that are not protected end
    before the first bundle with which they would be more than `limit`, if there is a row before it.
    """
    which = (controller, shards, shard, limit)
    rows = cursor.run(*((_CLAIM, (*which, lease_seconds)) if lease_seconds else (_LOOK, which))).fetchall()
    if rows[0][0] is None:
        return Claims(rows[0][6], ())
    rows.sort(key=lambda row: (row[5], row[3]))
    own, bundled, bundles, more = dict[Ref, Claim](), dict[Ref, Claim](), list[Claim](), False
    for kind, namespace, name, seq, cursor_text, *_ in rows:
        claim = Claim(controller, Ref(kind, namespace, name), seq, cursor_text)
        refs = _references.decode(cursor_text) if kind == BUNDLE else (claim.ref,)
        if more := 0 < len(own) + len(bundled) > limit - len(refs) and not lease_seconds:
            break
        if kind == BUNDLE:
            bundles.append(claim)
            bundled |= {ref: Claim(controller, ref, seq, bundled=True) for ref in (Ref(*names) for names in refs)}
        else:
            own[claim.ref] = claim
    claims = (*own.values(), *(claim for ref, claim in bundled.items() if ref not in own))
    return Claims(max(row[6] for row in rows), claims, tuple(bundles), more)


def release(cursor: BinaryCursor, claims: Sequence[Claim], *, due_at: datetime | None) -> None:
    """Give claims back: their rows are due at `due_at`; None: now. The caller holds the write lock.

    A row that was marked meanwhile keeps its due time.
    """
    ordered = sorted(claims, key=lambda claim: (claim.controller, claim.ref))
    cursor.run(_RELEASE, (due_at, *_keys(ordered), bigints([claim.seq for claim in ordered])))


def extend(cursor: BinaryCursor, claims: Sequence[tuple[Claim, datetime]], *, lease_seconds: float) -> datetime:
    """Extend claims, given with the times at which they end, to `lease_seconds` from now; return now.

    A claim that has ended is not extended: another process may have the row by now. The caller holds the write lock.
    """
    ordered = sorted(claims, key=lambda pair: (pair[0].controller, pair[0].ref))
    keys = _keys([claim for claim, _ in ordered])
    cursor.run(_EXTEND, (lease_seconds, *keys, moments([ends for _, ends in ordered])))
    row = cursor.run("SELECT clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now


def free(cursor: BinaryCursor, shards: Mapping[str, int], *, shard: int, until: datetime | None) -> None:
    """Make claimed rows of a shard claimable at once.

    `shards`: the number of shards of each controller. `until`: free only claims that end by then; None: free all.
    The caller holds the write lock.
    """
    cursor.run(_FREE, (texts(list(shards)), bigints(list(shards.values())), shard, until))


def end_chunk(cursor: BinaryCursor, claims: Sequence[Claim], *, to: str | None) -> None:
    """Save how far a fan-out has come (`to`), or end it (`to` None). An origin that was marked meanwhile starts again.

    The caller holds the write lock.
    """
    ordered = sorted(claims, key=lambda claim: (claim.controller, claim.ref))
    columns = [*_keys(ordered), bigints([claim.seq for claim in ordered])]
    if to is not None or cursor.run(_REMOVE, columns).rowcount < len(ordered):
        cursor.run(_TO_CURSOR, (to or "", *columns))


def next_due(cursor: BinaryCursor, controllers: Collection[str]) -> datetime | None:
    """Return when the first row of these controllers can be claimed; None: they have no row."""
    row = cursor.run(_NEXT, (texts(controllers),)).fetchone()
    return None if row is None else row[0]


def seconds_until_due(cursor: BinaryCursor, shards: Mapping[str, int], *, shard: int) -> dict[str, float]:
    """Return the seconds until the first row of each controller can be claimed, by the clock of the database.

    `shards`: the number of shards of each controller. At most 0: a row can be claimed now. A controller without rows in
    the shard is left out.
    """
    names, numbers = texts(list(shards)), bigints(list(shards.values()))
    return dict(cursor.run(_UNTIL_DUE, (names, numbers, shard, shard)).fetchall())


def count_due(cursor: BinaryCursor, controllers: Collection[str]) -> int:
    """Return how many rows of these controllers are due now, those that are being worked on included."""
    row = cursor.run(_COUNT, (texts([name.lower() for name in controllers]),)).fetchone()
    assert row is not None
    count: int = row[0]
    return count


def announced(marks: Iterable[Mark]) -> str:
    """Return what is notified of marks: the names of their controllers. "": there are no marks.

    If all rows of a controller are due in SOON or later, no process has to look for them now, so its name begins with
    LATER.
    """
    first: dict[str, timedelta] = {}
    for mark in marks:
        first[mark.controller] = min(first.get(mark.controller, mark.after), mark.after)
    return ",".join(sorted(name if after < SOON else f"{LATER}{name}" for name, after in first.items()))


def notify(cursor: BinaryCursor, controllers: Collection[str]) -> None:
    """Notify listeners, when the transaction commits, that these controllers have new due rows."""
    cursor.run(NOTIFY, (CHANNEL, ",".join(sorted(controllers))))

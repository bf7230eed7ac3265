"""The write lock: the row of objects_counter, which a transaction locks first and keeps until its end.

What the lock's statement returns is also kept in settings of the transaction. So the statements after it can be sent
before its answer has arrived, and no process holds the lock while Python works.

A process may be paused while it sends. PostgreSQL then waits for the rest, and a busy pipeline never counts as idle. So
the transaction gets a time limit, which PostgreSQL knows since version 17.
"""

from __future__ import annotations

from typing import Final

LIMITED_SINCE: Final = 170000  # server_version_num
_KEPT: Final = f"""set_config('lifeboat.base', base::text, true), set_config('lifeboat.at', at::text, true),
        CASE WHEN current_setting('server_version_num')::integer >= {LIMITED_SINCE}
            THEN set_config('transaction_timeout', %s, true) END"""
TAKE: Final = f"""
    WITH locked AS (
        INSERT INTO objects_counter (id, version) VALUES (1, %s)
        ON CONFLICT (id) DO UPDATE SET version = objects_counter.version + excluded.version
        RETURNING version - %s::bigint AS base, clock_timestamp() AS at
    )
    SELECT base, at, {_KEPT} FROM locked"""
"""Takes the lock and as many versions. Returns the newest version before them, and the time. The last parameter is the
limit of the transaction."""
# The version in the row does not change, because each change of it counts as a written object (apps/objects/origin.py).
# A missing row is created. The time is read after the wait for the lock.
TAKE_ONLY: Final = f"""
    WITH stored AS MATERIALIZED (SELECT version FROM objects_counter WHERE id = 1 FOR UPDATE),
    created AS (
        INSERT INTO objects_counter (id, version) SELECT 1, 0 WHERE NOT EXISTS (SELECT 1 FROM stored)
        ON CONFLICT (id) DO UPDATE SET version = objects_counter.version
        RETURNING version
    ), locked AS MATERIALIZED (
        SELECT version AS base, clock_timestamp() AS at FROM (SELECT * FROM stored UNION ALL SELECT * FROM created) one
    )
    SELECT base, at, {_KEPT} FROM locked"""
"""The same without versions. Returns the newest version, and the time."""
SET_VERSION: Final = "UPDATE objects_counter SET version = %s WHERE id = 1"
BASE: Final = "(SELECT current_setting('lifeboat.base')::bigint)"
"""The newest version before those of the transaction, in a statement after TAKE."""
AT: Final = "(SELECT current_setting('lifeboat.at')::timestamptz)"
"""When the transaction got the lock, in a statement after TAKE."""
HELD_LEASE: Final = """
    SELECT 1 FROM objects_lease WHERE name = %s AND shard = %s AND epoch = %s AND until > clock_timestamp() FOR SHARE"""

"""Storage parameters of tables, for migrations: compression of documents and room for updates."""

from __future__ import annotations

from django.db.migrations.operations import RunSQL

# A server without lz4 would compress every row of more than 2 KB with pglz. For a Work and its line in the change log,
# that is half of the cost of writing. So on such a server a row that fits on a page is not compressed.
_COMPRESS = """
DO $$ BEGIN
    ALTER TABLE {table} {changes};
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    ALTER TABLE {table} SET (toast_tuple_target = 8160);
END $$
"""
# If the new version of a row fits on the same page, an update need not write to indexes.
_ROOM = "ALTER TABLE {table} SET (fillfactor = 70)"


def compression(table: str, *columns: str) -> str:
    """Return the statement that compresses columns with lz4, if the server supports it."""
    changes = ", ".join(f"ALTER COLUMN {column} SET COMPRESSION lz4" for column in columns)
    return _COMPRESS.format(table=table, changes=changes)


def compressed(table: str, *columns: str) -> RunSQL:
    """Return the migration operation that compresses columns with lz4, if the server supports it."""
    return RunSQL(compression(table, *columns), RunSQL.noop)


def roomy(table: str) -> RunSQL:
    """Return the migration operation that leaves room for new versions of rows on each page."""
    return RunSQL(_ROOM.format(table=table), f"ALTER TABLE {table} RESET (fillfactor)")

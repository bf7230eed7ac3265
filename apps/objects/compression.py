"""How tables keep their documents: for migrations."""

from __future__ import annotations

from django.db.migrations.operations import RunSQL

# A server built without lz4 would compress with pglz what is longer than 2 KB, which for a Work and its line in the log
# is half of what writing them costs: there, what fits a page stays as it is.
_COMPRESS = """
DO $$ BEGIN
    ALTER TABLE {table} {changes};
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
    ALTER TABLE {table} SET (toast_tuple_target = 8160);
END $$
"""
# Room on the page keeps updates from touching indexes.
_ROOM = "ALTER TABLE {table} SET (fillfactor = 70)"


def compression(table: str, *columns: str) -> str:
    """Return the statement that compresses columns with lz4, where the server has it."""
    changes = ", ".join(f"ALTER COLUMN {column} SET COMPRESSION lz4" for column in columns)
    return _COMPRESS.format(table=table, changes=changes)


def compressed(table: str, *columns: str) -> RunSQL:
    """Return the operation that compresses columns with lz4, where the server has it."""
    return RunSQL(compression(table, *columns), RunSQL.noop)


def roomy(table: str) -> RunSQL:
    """Return the operation that leaves room for updates beside each row."""
    return RunSQL(_ROOM.format(table=table), f"ALTER TABLE {table} RESET (fillfactor)")

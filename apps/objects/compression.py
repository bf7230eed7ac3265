"""How tables keep their documents: for migrations."""

from __future__ import annotations

from django.db.migrations.operations import RunSQL

# A server built without lz4 keeps its own default.
_COMPRESS = """
DO $$ BEGIN
    ALTER TABLE {table} {changes};
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN NULL;
END $$
"""
# Room on the page keeps updates from touching indexes.
_ROOM = "ALTER TABLE {table} SET (fillfactor = 70)"


def compressed(table: str, *columns: str) -> RunSQL:
    """Return the operation that compresses columns with lz4, where the server has it."""
    changes = ", ".join(f"ALTER COLUMN {column} SET COMPRESSION lz4" for column in columns)
    return RunSQL(_COMPRESS.format(table=table, changes=changes), RunSQL.noop)


def roomy(table: str) -> RunSQL:
    """Return the operation that leaves room for updates beside each row."""
    return RunSQL(_ROOM.format(table=table), f"ALTER TABLE {table} RESET (fillfactor)")

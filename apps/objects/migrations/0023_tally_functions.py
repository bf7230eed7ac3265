"""Tallies cost less: nothing is done for a statement that changed no row, and tables that are written often have
functions of their own.

INSERT … ON CONFLICT DO UPDATE calls the triggers of both, one of them often without a row. `objects_tally` is dynamic
SQL, which is planned each time; the plans of a table's own functions are kept.
"""

from importlib import import_module

from django.db import migrations

_DYNAMIC = import_module("apps.objects.migrations.0015_tallies")._TALLY
_CHANGED = """
        IF TG_OP = 'DELETE' THEN
            PERFORM FROM removed LIMIT 1;
        ELSE
            PERFORM FROM added LIMIT 1;
        END IF;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;"""
_REPLACED = _DYNAMIC.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
_SKIPPING = _REPLACED.replace("    BEGIN\n", f"    BEGIN{_CHANGED}\n", 1)

_COUNT = """
    CREATE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO objects_tally AS t (counted, cluster, state, reason, number)
        SELECT '{counted}', changed.* FROM (
            SELECT cluster, state, reason, sum(change) AS number FROM ({changes}) changes
            GROUP BY cluster, state, reason) changed
        WHERE number <> 0
        ON CONFLICT (counted, cluster, state, reason) DO UPDATE SET number = t.number + excluded.number;{clean}
        RETURN NULL;
    END $$"""
_CLEAN = """
        DELETE FROM objects_tally WHERE counted = '{counted}' AND number = 0;"""
_TRIGGER = """
    CREATE OR REPLACE TRIGGER {trigger} AFTER {operation} ON {table} REFERENCING {rows}
    FOR EACH STATEMENT EXECUTE FUNCTION {call}"""
_ADDED, _REMOVED = "NEW TABLE AS added", "OLD TABLE AS removed"


def tallied_by_functions(
    table: str, counted: str, *, cluster: str, state: str = "''", reason: str = "''"
) -> list[migrations.RunSQL]:
    """Return the operations that give a table functions of its own for what `tallied` counts. Arguments as there."""
    of_row = f"{cluster} AS cluster, {state} AS state, {reason} AS reason"
    added, removed = f"SELECT {of_row}, 1 AS change FROM added", f"SELECT {of_row}, -1 AS change FROM removed"
    arguments = ", ".join("'" + one.replace("'", "''") + "'" for one in (counted, cluster, state, reason))
    operations = []
    for operation, rows, changes in (
        ("insert", _ADDED, added),
        ("delete", _REMOVED, removed),
        ("update", f"{_REMOVED} {_ADDED}", f"{added} UNION ALL {removed}"),
    ):
        name = f"{table}_tally_{operation}"
        clean = "" if operation == "insert" else _CLEAN.format(counted=counted)
        called = {"trigger": name, "operation": operation, "table": table, "rows": rows}
        operations += [
            migrations.RunSQL(
                _COUNT.format(function=name, counted=counted, changes=changes, clean=clean), f"DROP FUNCTION {name}()"
            ),
            migrations.RunSQL(
                _TRIGGER.format(**called, call=f"{name}()"),
                _TRIGGER.format(**called, call=f"objects_tally({arguments})"),
            ),
        ]
    return operations


class Migration(migrations.Migration):
    dependencies = [("objects", "0022_assumptions")]

    operations = [migrations.RunSQL(_SKIPPING, _REPLACED)]

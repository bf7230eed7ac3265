"""Graceful evictions are counted by reason as well: those of Drains are not what moves because of a failure.

Processes that write meanwhile wait for the lock. Those of the version before add up the numbers of all reasons.
"""

from importlib import import_module

from django.db import migrations

_before = import_module("apps.objects.migrations.0015_tallies")
tallied_by_functions = import_module("apps.objects.migrations.0023_tally_functions").tallied_by_functions

_TABLE, _COUNTED = "failover_gracefulevictiontask", "GracefulEvictionTask"
_COLUMNS = {"cluster": "from_cluster", "state": "purge_mode"}


def _counted(reason):
    """Return the statements that count by these columns from now on, and count again what there is."""
    created = [
        operation.sql.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
        for operation in tallied_by_functions(_TABLE, _COUNTED, **_COLUMNS, reason=reason)
        if "CREATE FUNCTION" in operation.sql
    ]
    return [
        _before.closed(_TABLE),
        *created,
        f"DELETE FROM objects_tally WHERE counted = '{_COUNTED}'",
        f"""
        INSERT INTO objects_tally (counted, cluster, state, reason, number)
        SELECT '{_COUNTED}', from_cluster, purge_mode, {reason}, count(*) FROM {_TABLE} GROUP BY 1, 2, 3, 4""",
    ]


class Migration(migrations.Migration):
    dependencies = [("failover", "0022_queued_together"), ("objects", "0023_tally_functions")]

    operations = [migrations.RunSQL(_counted("reason"), _counted("''"))]

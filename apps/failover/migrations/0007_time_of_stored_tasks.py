"""Tasks stored already get their gracePeriodSeconds and suppressDeletion from the documents of their bindings.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

_ENTER = """
    UPDATE failover_gracefulevictiontask t
    SET grace_period_seconds = (task ->> 'gracePeriodSeconds')::bigint,
        suppress_deletion = (task ->> 'suppressDeletion')::boolean
    FROM resources_binding b, jsonb_array_elements(b.doc::jsonb -> 'spec' -> 'gracefulEvictionTasks') task
    WHERE b.doc LIKE '%%"gracefulEvictionTasks":%%'
        AND t.binding = b.kind || ':' || CASE WHEN b.namespace <> '' THEN b.namespace || '/' ELSE '' END || b.name
        AND t.from_cluster = task ->> 'fromCluster'"""


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0006_time_of_tasks"),
        ("resources", "0003_pending_lists"),
    ]

    operations = [migrations.RunSQL([(WRITE_LOCK, None), (beside_nul(_ENTER), [])], migrations.RunSQL.noop)]

"""Node ports of Services were not found by their number before: enter the index of `admission.node_ports`.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

# As controlplane.kinds.template.node_port_index makes it.
_ENTER = """
    UPDATE objects_object t SET keys = t.keys || found.keys
    FROM (
        SELECT id, array_agg(DISTINCT 'nodePort=' || (number #>> '{}')) AS keys
        FROM objects_object, LATERAL jsonb_path_query(doc::jsonb, '$.spec.ports[*].nodePort') AS number
        WHERE kind = 'Service' AND jsonb_typeof(number) = 'number' AND number <> '0'::jsonb
        GROUP BY id
    ) found
    WHERE t.id = found.id"""
_LEAVE = """
    UPDATE objects_object SET keys = (SELECT coalesce(array_agg(key), ARRAY[]::text[]) FROM unnest(keys) key
        WHERE NOT starts_with(key, 'nodePort='))
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE starts_with(key, 'nodePort='))"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0016_audit_events")]

    operations = [
        migrations.RunSQL([(WRITE_LOCK, None), (beside_nul(_ENTER), None)], [(WRITE_LOCK, None), (_LEAVE, None)])
    ]

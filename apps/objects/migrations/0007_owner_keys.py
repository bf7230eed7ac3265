"""What objects own was not looked up before: enter the index of `controllers.owners` for those stored already.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

# As controlplane.kinds makes it: the owner's kind without its version, with the dependent's namespace and without one.
_ENTER = """
    UPDATE {table} t SET keys = t.keys || owned.keys
    FROM (
        SELECT id, array_agg(DISTINCT 'owner=' || kind_key || ':' || place) AS keys
        FROM {table},
            jsonb_array_elements(doc::jsonb -> 'metadata' -> 'ownerReferences') one,
            LATERAL (SELECT CASE WHEN one ->> 'apiVersion' LIKE '%%/%%'
                THEN split_part(one ->> 'apiVersion', '/', 1) || '/' ELSE '' END || (one ->> 'kind') AS kind_key) k,
            LATERAL unnest(ARRAY[one ->> 'name', CASE WHEN namespace <> ''
                THEN namespace || '/' || (one ->> 'name') END]) AS place
        WHERE doc LIKE '%%"ownerReferences":%%' AND place IS NOT NULL
        GROUP BY id
    ) owned
    WHERE t.id = owned.id"""
_LEAVE = """
    UPDATE {table} SET keys = (SELECT coalesce(array_agg(key), ARRAY[]::text[]) FROM unnest(keys) key
        WHERE key NOT LIKE 'owner=%%')
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE key LIKE 'owner=%%')"""
_TABLES = ("objects_object", "policies_policy")


class Migration(migrations.Migration):
    dependencies = [("objects", "0006_names"), ("policies", "0003_names")]

    operations = [
        migrations.RunSQL(
            [(WRITE_LOCK, None), *((beside_nul(_ENTER.format(table=table)), []) for table in _TABLES)],
            [(WRITE_LOCK, None), *((_LEAVE.format(table=table), []) for table in _TABLES)],
        )
    ]

"""Autoscalers were not found by their workload before: enter the index of `controllers.hpa_scale_target_marker`.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

# As controlplane.kinds.template.scale_target_index makes it.
_ENTER = """
    UPDATE objects_object t SET keys = t.keys || ARRAY['scaleTarget=' || found.target]
    FROM (
        SELECT id, CASE WHEN version LIKE '%/%' THEN split_part(version, '/', 1) || '/' ELSE '' END
            || scaled || ':' || namespace || '/' || name_of AS target
        FROM (
            SELECT id, namespace, coalesce(doc::jsonb #>> '{spec,scaleTargetRef,apiVersion}', '') AS version,
                doc::jsonb #>> '{spec,scaleTargetRef,kind}' AS scaled,
                doc::jsonb #>> '{spec,scaleTargetRef,name}' AS name_of
            FROM objects_object WHERE kind = 'autoscaling/HorizontalPodAutoscaler'
        ) read WHERE scaled <> '' AND name_of <> ''
    ) found
    WHERE t.id = found.id"""
_LEAVE = """
    UPDATE objects_object SET keys = (SELECT coalesce(array_agg(key), ARRAY[]::text[]) FROM unnest(keys) key
        WHERE NOT starts_with(key, 'scaleTarget='))
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE starts_with(key, 'scaleTarget='))"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0018_quota_use")]

    operations = [
        migrations.RunSQL([(WRITE_LOCK, None), (beside_nul(_ENTER), None)], [(WRITE_LOCK, None), (_LEAVE, None)])
    ]

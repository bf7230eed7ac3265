"""What runs pods was not found by their labels and by what they name before: enter the index of
`controllers.graceful_eviction` for the templates stored already.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

_NAMED = {  # in a pod's spec
    "ConfigMap": (
        "$.volumes[*].configMap.name",
        "$.volumes[*].projected.sources[*].configMap.name",
        "$.*[*].envFrom[*].configMapRef.name",
        "$.*[*].env[*].valueFrom.configMapKeyRef.name",
    ),
    "Secret": (
        "$.imagePullSecrets[*].name",
        "$.volumes[*].*.secretName",
        "$.volumes[*].*.secretRef.name",
        "$.volumes[*].csi.nodePublishSecretRef.name",
        "$.volumes[*].projected.sources[*].secret.name",
        "$.*[*].envFrom[*].secretRef.name",
        "$.*[*].env[*].valueFrom.secretKeyRef.name",
    ),
    "ServiceAccount": ('$.serviceAccountName ? (@ != "default")',),
    "PersistentVolumeClaim": ("$.volumes[*].persistentVolumeClaim.claimName",),
}
_PATHS = ", ".join(f"('{kind}', '{path}'::jsonpath)" for kind, paths in _NAMED.items() for path in paths)
_WITH_PODS = (
    "'Pod', 'ReplicationController', 'apps/Deployment', 'apps/StatefulSet', 'apps/DaemonSet', 'apps/ReplicaSet', "
    "'batch/Job', 'batch/CronJob'"
)
# As controlplane.kinds.template.companions_index makes it.
_ENTER = f"""
    UPDATE objects_object t SET keys = t.keys || found.keys
    FROM (
        SELECT id, array_agg(DISTINCT 'companions=' || key) AS keys
        FROM (
            SELECT id, namespace, CASE kind
                WHEN 'batch/CronJob' THEN doc::jsonb #> '{{spec,jobTemplate,spec,template}}'
                WHEN 'Pod' THEN doc::jsonb
                ELSE doc::jsonb #> '{{spec,template}}' END AS template
            FROM objects_object WHERE kind IN ({_WITH_PODS}) AND namespace <> ''
        ) o,
        LATERAL (
            SELECT namespace || '?' AS key
            UNION ALL
            SELECT namespace || '?' || (pair ->> 'key') || '=' || (pair ->> 'value')
            FROM jsonb_path_query(template, '$.metadata.labels.keyvalue()') AS pair
            UNION ALL
            SELECT named.kind || '/' || namespace || '/' || (word #>> '{{}}')
            FROM (VALUES {_PATHS}) AS named(kind, path),
                LATERAL jsonb_path_query(template -> 'spec', named.path) AS word
            WHERE jsonb_typeof(word) = 'string' AND word #>> '{{}}' <> ''
        ) k
        GROUP BY id
        UNION ALL
        SELECT id, array_agg(DISTINCT 'companions=Secret/' || namespace || '/' || (word #>> '{{}}'))
        FROM objects_object, LATERAL jsonb_path_query(doc::jsonb, '$.spec.tls[*].secretName') AS word
        WHERE kind = 'networking.k8s.io/Ingress' AND jsonb_typeof(word) = 'string' AND word #>> '{{}}' <> ''
        GROUP BY id
    ) found
    WHERE t.id = found.id"""
_LEAVE = """
    UPDATE objects_object SET keys = (SELECT coalesce(array_agg(key), ARRAY[]::text[]) FROM unnest(keys) key
        WHERE NOT starts_with(key, 'companions='))
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE starts_with(key, 'companions='))"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0008_pending_lists")]

    operations = [
        migrations.RunSQL([(WRITE_LOCK, None), (beside_nul(_ENTER), None)], [(WRITE_LOCK, None), (_LEAVE, None)])
    ]

"""When a cluster only got taints that keep new copies away, `controllers.scheduler` read all bindings that may choose
the cluster. Now it looks for the few that this concerns in the index `closed`: enter the bindings stored already.

As controlplane.kinds.binding.affinity_index makes it: the values of the index `affine`, of bindings that wait for a
place and of those with spread constraints by groups of clusters.

Processes that write meanwhile wait for the write lock. Otherwise they would lock rows in another order, and PostgreSQL
would end the migration because of the deadlock.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

_ENTER = """
    UPDATE resources_binding SET keys = keys || ARRAY(
        SELECT 'closed=' || substr(key, length('affine=') + 1) FROM unnest(keys) key WHERE starts_with(key, 'affine='))
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE starts_with(key, 'pending='))
        OR jsonb_path_exists(doc::jsonb,
            '$.spec.placement.spreadConstraints[*] ? (!exists(@.spreadByField) || @.spreadByField != "cluster")')"""
_LEAVE = """
    UPDATE resources_binding SET keys = ARRAY(SELECT key FROM unnest(keys) key WHERE NOT starts_with(key, 'closed='))
    WHERE EXISTS (SELECT 1 FROM unnest(keys) key WHERE starts_with(key, 'closed='))"""


class Migration(migrations.Migration):
    dependencies = [("resources", "0010_tally_functions")]

    operations = [migrations.RunSQL([WRITE_LOCK, beside_nul(_ENTER)], [WRITE_LOCK, _LEAVE])]

"""Replicas that were evicted and wait for a place count as used in quotas: count again where such bindings may be.

Processes that write meanwhile wait for the lock, and add their changes to what is counted here.
"""

from importlib import import_module

from django.db import migrations

from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.kinds import RESOURCE_BINDING

summed = import_module("apps.resources.migrations.0008_quota_use").summed


def _count_again(apps, schema_editor):
    schema_editor.execute("LOCK TABLE objects_quotause IN SHARE ROW EXCLUSIVE MODE")
    bindings = apps.get_model("resources", "Binding").objects.filter(kind=RESOURCE_BINDING)
    evicted = bindings.filter(doc__contains=BEFORE_FAILOVER_ANNOTATION)
    namespaces = sorted(set(evicted.values_list("namespace", flat=True)))
    sums = summed(bindings.filter(namespace__in=namespaces))
    use = apps.get_model("objects", "QuotaUse")
    use.objects.filter(namespace__in=namespaces).delete()
    use.objects.bulk_create(
        use(namespace=namespace, resource=resource, amount=amount) for (namespace, resource), amount in sums.items()
    )


class Migration(migrations.Migration):
    dependencies = [("resources", "0011_closed_clusters"), ("objects", "0023_tally_functions")]

    operations = [migrations.RunPython(_count_again, migrations.RunPython.noop)]

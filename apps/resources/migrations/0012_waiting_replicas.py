"""Replicas that were evicted and wait for a place count as used in quotas: count again where such bindings may be.

Processes that write meanwhile wait for the lock, and add their changes to what is counted here.
"""

from collections import Counter

from django.db import migrations

from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION
from controlplane.estimate.quota import use_of
from controlplane.kind import KINDS, decode
from controlplane.kinds import RESOURCE_BINDING


def _count_again(apps, schema_editor):
    schema_editor.execute("LOCK TABLE objects_quotause IN SHARE ROW EXCLUSIVE MODE")
    bindings = apps.get_model("resources", "Binding").objects.filter(kind=RESOURCE_BINDING)
    evicted = bindings.filter(doc__contains=BEFORE_FAILOVER_ANNOTATION)
    namespaces = sorted(set(evicted.values_list("namespace", flat=True)))
    sums = Counter()
    documents = bindings.filter(namespace__in=namespaces).values_list("doc")
    for (document,) in documents.iterator(chunk_size=1000):
        binding = decode(KINDS[RESOURCE_BINDING], document)
        for resource, amount in use_of(binding).items():
            sums[binding.metadata.namespace, resource] += amount
    use = apps.get_model("objects", "QuotaUse")
    use.objects.filter(namespace__in=namespaces).delete()
    use.objects.bulk_create(
        use(namespace=namespace, resource=resource, amount=amount) for (namespace, resource), amount in sums.items()
    )


class Migration(migrations.Migration):
    dependencies = [("resources", "0011_closed_clusters"), ("objects", "0023_tally_functions")]

    operations = [migrations.RunPython(_count_again, migrations.RunPython.noop)]

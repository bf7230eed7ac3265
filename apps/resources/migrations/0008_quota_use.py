"""Count what the bindings that exist already use of quotas. From now on `apply` adds every change."""

from collections import Counter

from django.db import migrations

from controlplane.estimate.quota import use_of
from controlplane.kind import KINDS, decode
from controlplane.kinds import RESOURCE_BINDING


def _count(apps, schema_editor):
    sums = Counter()
    documents = apps.get_model("resources", "Binding").objects.filter(kind=RESOURCE_BINDING).values_list("doc")
    for (document,) in documents.iterator(chunk_size=1000):
        binding = decode(KINDS[RESOURCE_BINDING], document)
        for resource, amount in use_of(binding).items():
            sums[binding.metadata.namespace, resource] += amount
    use = apps.get_model("objects", "QuotaUse")
    use.objects.bulk_create(
        use(namespace=namespace, resource=resource, amount=amount) for (namespace, resource), amount in sums.items()
    )


def _forget(apps, schema_editor):
    """Remove the sums: nothing keeps them up to date before this migration, and it makes them again."""
    apps.get_model("objects", "QuotaUse").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("resources", "0007_issued_tokens"), ("objects", "0018_quota_use")]

    operations = [migrations.RunPython(_count, _forget)]

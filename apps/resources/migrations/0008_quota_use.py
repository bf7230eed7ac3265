"""Count what the bindings that exist already use of quotas. From now on `apply` adds every change."""

import logging
from collections import Counter

import msgspec
from django.db import migrations

from controlplane.estimate.quota import use_of
from controlplane.kind import KINDS, decode
from controlplane.kinds import RESOURCE_BINDING

log = logging.getLogger(__name__)


def summed(bindings):
    """Return what bindings use by (namespace, resource). One that cannot be read counts nothing: nothing else can be
    done with it either, and it must not keep everything else from being upgraded."""
    sums = Counter()
    for namespace, name, document in bindings.values_list("namespace", "name", "doc").iterator(chunk_size=1000):
        try:
            binding = decode(KINDS[RESOURCE_BINDING], document)
        except msgspec.MsgspecError as error:
            log.warning("the use of quotas of %s %s/%s is not known: %s", RESOURCE_BINDING, namespace, name, error)
            continue
        for resource, amount in use_of(binding).items():
            sums[namespace, resource] += amount
    return sums


def _count(apps, schema_editor):
    sums = summed(apps.get_model("resources", "Binding").objects.filter(kind=RESOURCE_BINDING))
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

"""Tokens that Secrets hold, and the index by which the token Secrets of a ServiceAccount are found.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations, models

from apps.objects.due import WRITE_LOCK
from apps.objects.stored_json import beside_nul

# As controlplane.kinds.template.token_secret makes it.
_ENTER = """
    UPDATE objects_object SET keys = keys || ARRAY['account=*', 'account=' || namespace || '/'
        || (doc::jsonb #>> '{metadata,annotations,kubernetes.io/service-account.name}')]
    WHERE kind = 'Secret' AND doc LIKE '%kubernetes.io/service-account-token%'
      AND doc::jsonb ->> 'type' = 'kubernetes.io/service-account-token'
      AND doc::jsonb #>> '{metadata,annotations,kubernetes.io/service-account.name}' <> ''"""
_LEAVE = """
    UPDATE objects_object SET keys = (SELECT coalesce(array_agg(key), ARRAY[]::text[]) FROM unnest(keys) key
        WHERE NOT starts_with(key, 'account='))
    WHERE kind = 'Secret' AND keys @> ARRAY['account=*']"""


class Migration(migrations.Migration):
    dependencies = [("resources", "0006_targets_in_order"), ("objects", "0015_tallies")]

    operations = [
        migrations.CreateModel(
            name="IssuedToken",
            fields=[
                ("key", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("namespace", models.TextField(db_collation="C", db_default="", default="")),
                ("account", models.TextField(db_collation="C", db_default="", default="")),
                ("account_uid", models.TextField(db_collation="C", db_default="", default="")),
                ("secret", models.TextField(db_collation="C", db_default="", default="")),
                ("secret_uid", models.TextField(db_collation="C", db_default="", default="")),
                ("place", models.TextField(db_collation="C", db_default="", default="")),
                ("last_used", models.DateTimeField(null=True)),
            ],
            options={"indexes": [models.Index(fields=["place"], name="issuedtoken_place")]},
        ),
        migrations.RunSQL([(WRITE_LOCK, None), (beside_nul(_ENTER), None)], [(WRITE_LOCK, None), (_LEAVE, None)]),
    ]

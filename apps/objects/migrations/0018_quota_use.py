"""The table of what namespaces use of quotas. `resources.0008_quota_use` counts the bindings that exist already."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("objects", "0017_node_ports")]

    operations = [
        migrations.CreateModel(
            name="QuotaUse",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("namespace", models.TextField(db_collation="C")),
                ("resource", models.TextField(db_collation="C")),
                ("amount", models.DecimalField(decimal_places=0, max_digits=60)),
            ],
            options={
                "verbose_name": "use of quotas",
                "verbose_name_plural": "use of quotas",
                "constraints": [models.UniqueConstraint(fields=("namespace", "resource"), name="one_use_per_resource")],
            },
        ),
    ]

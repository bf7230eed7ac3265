"""Changes of row-native values that can be watched. `failover.0019_eviction_changes` logs those of evictions."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("objects", "0019_scale_targets")]

    operations = [
        migrations.CreateModel(
            name="RowChange",
            fields=[
                ("version", models.BigIntegerField(primary_key=True, serialize=False)),
                ("of", models.TextField(db_collation="C")),
                ("key", models.TextField(db_collation="C")),
                ("before", models.JSONField(null=True)),
                ("removed", models.BooleanField()),
            ],
            options={"verbose_name": "change of a row", "verbose_name_plural": "changes of rows"},
        ),
    ]

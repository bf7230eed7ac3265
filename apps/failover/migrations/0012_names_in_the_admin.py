"""Name the page of unhealthy copies in the admin; no table changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0011_column_defaults"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="ailingcopies",
            options={"verbose_name": "unhealthy copies", "verbose_name_plural": "unhealthy copies"},
        ),
    ]

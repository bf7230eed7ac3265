"""Find what failed over without reading the whole change log."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("objects", "0010_rows_written"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="changelog",
            index=models.Index(
                fields=["namespace", "name", "kind", "version"],
                name="changelog_failovers",
                condition=models.Q(
                    type="MODIFIED", reason__in=("Evictions", "ApplicationFailover", "Drain", "Failback", "Revert")
                ),
            ),
        ),
    ]

"""Remember which clusters a version of a workload has left for being unhealthy."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0004_ailing_copies"),
    ]

    operations = [
        migrations.AddField(
            model_name="ailingcopies",
            name="moves",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="ailingcopies",
            name="version",
            field=models.TextField(db_collation="C", default=""),
        ),
    ]

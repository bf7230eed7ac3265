from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0009_stops"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleetstate",
            name="scope",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AddField(
            model_name="fleetstate",
            name="cursor",
            field=models.JSONField(null=True),
        ),
        migrations.RemoveIndex(model_name="eviction", name="eviction_state"),
        migrations.AddIndex(
            model_name="eviction",
            index=models.Index(fields=["state", "cluster", "priority", "due_at", "key"], name="eviction_state"),
        ),
    ]

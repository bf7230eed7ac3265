"""What was queued within some seconds is found by an index: controllers.eviction_pending reports it together."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0021_cheaper_queue"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="eviction",
            index=models.Index(
                fields=["queued_at"],
                name="eviction_queued_at",
                condition=models.Q(state="Queued", due_at__isnull=False),
            ),
        ),
    ]

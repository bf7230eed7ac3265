"""Evictions are counted by cluster, state and reason, and graceful evictions by cluster and purge mode."""

from importlib import import_module

from django.db import migrations, models

tallied = import_module("apps.objects.migrations.0015_tallies").tallied

_STATE = "CASE WHEN due_at IS NULL AND ended_at IS NULL THEN 'Stays' ELSE state END"


class Migration(migrations.Migration):
    dependencies = [("failover", "0014_topics"), ("objects", "0015_tallies")]

    operations = [
        tallied("failover_eviction", "Eviction", cluster="cluster", state=_STATE, reason="reason"),
        tallied("failover_gracefulevictiontask", "GracefulEvictionTask", cluster="from_cluster", state="purge_mode"),
        migrations.AddIndex(
            model_name="gracefulevictiontask",
            index=models.Index(fields=["created_at"], name="evictiontask_created"),
        ),
        migrations.AddIndex(
            model_name="eviction",
            index=models.Index(fields=["due_at"], name="eviction_last_due", condition=models.Q(state="Queued")),
        ),
    ]

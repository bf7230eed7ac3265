"""Answers about readiness are counted by each of their clusters, and by namespace, so that filters need not count."""

from importlib import import_module

from django.db import migrations

tallied = import_module("apps.objects.migrations.0015_tallies").tallied

_TABLE = "failover_bindingreadiness"


class Migration(migrations.Migration):
    dependencies = [("failover", "0019_eviction_changes"), ("objects", "0015_tallies")]

    operations = [
        tallied(
            *(_TABLE, "AnswerOfCluster"),
            cluster="jsonb_array_elements_text(clusters)",
            state="verdict",
            reason="named",
            trigger="tally_clusters",
        ),
        tallied(
            *(_TABLE, "AnswerOfNamespace"),
            cluster="''",
            state="namespace",
            reason="verdict || ',' || named",
            trigger="tally_namespaces",
        ),
    ]

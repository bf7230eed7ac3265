"""Bindings are counted by the clusters on which they are placed."""

from importlib import import_module

from django.db import migrations

tallied = import_module("apps.objects.migrations.0015_tallies").tallied


class Migration(migrations.Migration):
    dependencies = [("resources", "0004_works"), ("objects", "0015_tallies")]

    operations = [tallied("resources_targetcluster", "TargetCluster", cluster="cluster")]

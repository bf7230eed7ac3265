"""The tally of the clusters on which bindings are placed has functions of its own, whose plans are kept."""

from importlib import import_module

from django.db import migrations

tallied_by_functions = import_module("apps.objects.migrations.0023_tally_functions").tallied_by_functions


class Migration(migrations.Migration):
    dependencies = [("resources", "0009_bindings_by_namespace"), ("objects", "0023_tally_functions")]

    operations = tallied_by_functions("resources_targetcluster", "TargetCluster", cluster="cluster")

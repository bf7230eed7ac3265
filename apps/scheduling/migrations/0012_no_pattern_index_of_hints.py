"""Drop the index Django adds to the keys of placement hints for LIKE; see 0005."""

from importlib import import_module

from django.db import migrations

dropped = import_module("apps.scheduling.migrations.0005_no_pattern_indexes").dropped


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0011_lists_of_cluster_names")]

    operations = [dropped("scheduling_placementhint", "scheduling_placementhint_key_13a4a8a7_like")]

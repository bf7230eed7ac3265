"""Bindings are counted by kind and namespace. Neither changes, so that updates of bindings cost nothing."""

from importlib import import_module

from django.db import migrations

tallied = import_module("apps.objects.migrations.0015_tallies").tallied


class Migration(migrations.Migration):
    dependencies = [("resources", "0008_quota_use"), ("objects", "0015_tallies")]

    operations = [
        tallied("resources_binding", "Binding", cluster="''", state="kind", reason="namespace", updates=False)
    ]

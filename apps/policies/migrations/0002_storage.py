"""Compress documents and leave room for updates."""

from django.db import migrations

from apps.objects.compression import compressed, roomy


class Migration(migrations.Migration):
    dependencies = [("policies", "0001_tables")]

    operations = [
        compressed("policies_policy", "doc"),
        roomy("policies_policy"),
        compressed("policies_clustertaintpolicy", "doc"),
        roomy("policies_clustertaintpolicy"),
    ]

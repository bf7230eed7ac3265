"""Compress documents and leave room for updates."""

from django.db import migrations

from apps.objects.compression import compressed, roomy


class Migration(migrations.Migration):
    dependencies = [("clusters", "0001_tables")]

    operations = [
        compressed("clusters_cluster", "doc"),
        roomy("clusters_cluster"),
    ]

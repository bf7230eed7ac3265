"""Compress documents and leave room for updates."""

from django.db import migrations

from apps.objects.compression import compressed, roomy


class Migration(migrations.Migration):
    dependencies = [("resources", "0001_tables")]

    operations = [
        compressed("resources_binding", "doc"),
        roomy("resources_binding"),
        compressed("resources_work", "doc"),
        roomy("resources_work"),
    ]

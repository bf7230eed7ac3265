"""Say what these are called in the plural."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("policies", "0002_storage"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="clustertaintpolicy",
            options={"verbose_name_plural": "cluster taint policies"},
        ),
        migrations.AlterModelOptions(
            name="policy",
            options={"verbose_name": "propagation policy", "verbose_name_plural": "propagation policies"},
        ),
    ]

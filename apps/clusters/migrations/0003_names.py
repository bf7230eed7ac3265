"""Say what these are called in the plural."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0002_storage"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="collected",
            options={"verbose_name_plural": "collected"},
        ),
    ]

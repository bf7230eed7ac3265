"""Say what these are called in lists."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("objects", "0005_due_next")]

    operations = [
        migrations.AlterModelOptions(name="changelog", options={"verbose_name_plural": "change log"}),
        migrations.AlterModelOptions(name="due", options={"verbose_name": "due row"}),
    ]

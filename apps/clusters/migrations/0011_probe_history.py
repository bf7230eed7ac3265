"""The results of the probes of the last day."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clusters", "0010_column_defaults")]

    operations = [
        migrations.AddField(
            model_name="observation",
            name="history",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
    ]

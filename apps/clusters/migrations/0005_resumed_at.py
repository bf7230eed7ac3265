"""Remember when somebody looked at a cluster again after nobody had."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0004_access_reason"),
    ]

    operations = [
        migrations.AddField(
            model_name="observation",
            name="resumed_at",
            field=models.DateTimeField(null=True),
        ),
    ]

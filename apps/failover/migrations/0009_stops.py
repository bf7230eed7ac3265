from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0008_told_tier"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleetstate",
            name="stops",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
    ]

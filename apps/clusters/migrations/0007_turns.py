"""Count how often what a cluster answers changed between ready and not ready, and remember the latest times."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0006_unread_apis"),
    ]

    operations = [
        migrations.AddField(model_name="observation", name="turns", field=models.BigIntegerField(default=0)),
        migrations.AddField(model_name="observation", name="turned_at", field=models.JSONField(default=list)),
    ]

"""Remember which API versions of a member could not be read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0005_resumed_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="collected",
            name="unread",
            field=models.JSONField(default=list),
        ),
    ]

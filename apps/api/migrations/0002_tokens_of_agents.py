"""A token of an agent is told apart by the Cluster it is for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("api", "0001_tokens"),
    ]

    operations = [
        migrations.AddField(
            model_name="token",
            name="cluster_uid",
            field=models.TextField(blank=True, null=True),
        ),
    ]

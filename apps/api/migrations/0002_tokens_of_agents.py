"""A token of an agent stores the uid of its Cluster."""

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

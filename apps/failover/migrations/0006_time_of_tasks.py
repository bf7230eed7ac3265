"""Keep with a task what its time is: gracePeriodSeconds and suppressDeletion."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0005_moves_of_versions"),
    ]

    operations = [
        migrations.AddField(
            model_name="gracefulevictiontask",
            name="grace_period_seconds",
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name="gracefulevictiontask",
            name="suppress_deletion",
            field=models.BooleanField(null=True),
        ),
    ]

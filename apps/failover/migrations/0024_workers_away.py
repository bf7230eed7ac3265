"""The fleet's row about the workers has a time: when one of them looked last. So an outage of theirs is noticed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("failover", "0023_tasks_by_reason")]

    operations = [migrations.AddField("fleetstate", "looked_at", models.DateTimeField(null=True))]

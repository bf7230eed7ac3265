"""The fleet's row about the workers has the gate PropagateDeps, so that a switch by the environment is noticed."""

from django.db import migrations

from apps.objects.fields import CodePointTextField


class Migration(migrations.Migration):
    dependencies = [("failover", "0024_workers_away")]

    operations = [migrations.AddField("fleetstate", "dependencies", CodePointTextField(default="", db_default=""))]

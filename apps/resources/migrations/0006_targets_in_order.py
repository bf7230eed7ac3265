"""The targets of a cluster are found in the order of their bindings, for the page of the cluster."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("resources", "0005_tallies")]

    operations = [
        migrations.RemoveIndex(model_name="targetcluster", name="target_cluster"),
        migrations.AddIndex(
            model_name="targetcluster",
            index=models.Index(fields=["cluster", "binding"], name="target_cluster"),
        ),
    ]

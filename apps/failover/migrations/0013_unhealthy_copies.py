"""Rename the model AilingCopies and its table."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("failover", "0012_names_in_the_admin")]

    operations = [migrations.RenameModel("AilingCopies", "UnhealthyCopies")]

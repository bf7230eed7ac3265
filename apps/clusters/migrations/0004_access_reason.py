"""Remember in one word why a member does not let us in."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0003_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="observation",
            name="access_reason",
            field=models.TextField(db_collation="C", default=""),
        ),
    ]

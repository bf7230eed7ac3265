"""Remember when a member last answered: a fence made before that moment is over."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0008_missed_turns"),
    ]

    operations = [
        migrations.AddField(model_name="observation", name="answered_at", field=models.DateTimeField(null=True)),
    ]

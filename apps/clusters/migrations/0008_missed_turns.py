from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0007_turns"),
    ]

    operations = [
        migrations.AddField(
            model_name="matchwindow",
            name="ready",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AddField(
            model_name="matchwindow",
            name="ready_since",
            field=models.DateTimeField(null=True),
        ),
    ]

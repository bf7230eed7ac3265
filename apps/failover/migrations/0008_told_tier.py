from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0007_time_of_stored_tasks"),
    ]

    operations = [
        migrations.AddField(
            model_name="fleetstate",
            name="tier",
            field=models.TextField(db_collation="C", default=""),
        ),
    ]

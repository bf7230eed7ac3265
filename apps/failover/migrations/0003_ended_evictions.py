from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0002_fleet_capacity"),
    ]

    operations = [
        migrations.AddField(
            model_name="eviction",
            name="failed_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="eviction",
            name="ended_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="fleetstate",
            name="holds",
            field=models.TextField(db_collation="C", default=""),
        ),
    ]

"""Give columns the defaults of the values they keep, so that an older process can insert rows during an update."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0010_queue_of_each_cluster"),
    ]

    operations = [
        migrations.AlterField(
            model_name="ailingcopies",
            name="moves",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AlterField(
            model_name="ailingcopies",
            name="since",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AlterField(
            model_name="ailingcopies",
            name="version",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="binding",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="cluster",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="generation",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="judged",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="message",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="priority",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="reason",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="resource_kind",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="eviction",
            name="state",
            field=models.TextField(db_collation="C", db_default="Queued", default="Queued"),
        ),
        migrations.AlterField(
            model_name="fleetstate",
            name="capacity",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="fleetstate",
            name="holds",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="fleetstate",
            name="tier",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
    ]

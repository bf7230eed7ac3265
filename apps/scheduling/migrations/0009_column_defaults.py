"""Give columns the defaults of the values they keep, so that an older process can insert rows during an update."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0008_numbered_promises"),
    ]

    operations = [
        migrations.AlterField(
            model_name="fleetnames",
            name="names",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="placementhint",
            name="clusters",
            field=models.JSONField(db_default=models.Value({}, models.JSONField()), default=dict),
        ),
        migrations.AlterField(
            model_name="placementhint",
            name="generation",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="placementnote",
            name="decision",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="placementnote",
            name="detail",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="placementnote",
            name="fleet",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="placementnote",
            name="previous",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="promise",
            name="binding",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="promise",
            name="cluster",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="promise",
            name="replicas",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="promise",
            name="request",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="promise",
            name="reserved",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]

"""Give columns the defaults of the values they keep, so that an older process can insert rows during an update."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("clusters", "0009_answered_at"),
    ]

    operations = [
        migrations.AlterField(
            model_name="collected",
            name="api_enablements",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="collected",
            name="kubernetes_version",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="collected",
            name="unread",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="matchwindow",
            name="cluster",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="matchwindow",
            name="matching",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name="matchwindow",
            name="policy",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="matchwindow",
            name="rule",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="matchwindow",
            name="unobserved_seconds",
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.AlterField(
            model_name="observation",
            name="access_lost",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="observation",
            name="access_reason",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="observation",
            name="message",
            field=models.TextField(db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="observation",
            name="reason",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="observation",
            name="status",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="observation",
            name="turned_at",
            field=models.JSONField(db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AlterField(
            model_name="observation",
            name="turns",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AlterField(
            model_name="observation",
            name="unobserved_seconds",
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
    ]

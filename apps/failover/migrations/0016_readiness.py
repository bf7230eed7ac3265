"""Add the stored readiness of bindings, and the round that checks all of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0015_tallies"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReadinessRound",
            fields=[
                ("key", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("digest", models.TextField(db_collation="C", db_default="", default="")),
                ("began_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("after", models.TextField(db_collation="C", db_default="", default="")),
                ("checked", models.BigIntegerField(db_default=0, default=0)),
                ("settled_at", models.DateTimeField(null=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="BindingReadiness",
            fields=[
                ("key", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("namespace", models.TextField(db_collation="C", db_default="", default="")),
                ("name", models.TextField(db_collation="C", db_default="", default="")),
                ("workload", models.TextField(db_collation="C", db_default="", default="")),
                ("verdict", models.TextField(db_collation="C", db_default="", default="")),
                ("named", models.TextField(db_collation="C", db_default="", default="")),
                ("clusters", models.JSONField(db_default=models.Value([], models.JSONField()), default=list)),
                ("obstacles", models.JSONField(db_default=models.Value([], models.JSONField()), default=list)),
                ("since", models.DateTimeField(null=True)),
            ],
            options={
                "verbose_name": "readiness of bindings",
                "verbose_name_plural": "readiness of bindings",
                "indexes": [models.Index(fields=["verdict", "named", "key"], name="readiness_named")],
            },
        ),
    ]

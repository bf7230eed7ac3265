from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0003_ended_evictions"),
    ]

    operations = [
        migrations.CreateModel(
            name="AilingCopies",
            fields=[
                ("key", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("since", models.JSONField()),
            ],
        ),
    ]

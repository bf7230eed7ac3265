from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduling", "0003_placement_notes"),
    ]

    operations = [
        migrations.CreateModel(
            name="PlacementHint",
            fields=[
                ("key", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("generation", models.BigIntegerField()),
                ("clusters", models.JSONField()),
            ],
        ),
    ]

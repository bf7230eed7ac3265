from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0007_reserved")]

    operations = [
        migrations.AddField("promise", "writer", models.TextField(db_collation="C", db_default="", default="")),
        migrations.AddField("promise", "number", models.BigIntegerField(default=0, db_default=0)),
        migrations.AddIndex("promise", models.Index(fields=["number"], name="promise_number")),
        migrations.RunSQL(
            "CREATE SEQUENCE scheduling_promise_numbers AS bigint", "DROP SEQUENCE scheduling_promise_numbers"
        ),
    ]

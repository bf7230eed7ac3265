"""Give columns the defaults of the values they keep, so that an older process can insert rows during an update."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("objects", "0012_origin"),
    ]

    operations = [
        migrations.AlterField(
            model_name="sweep",
            name="after_name",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="sweep",
            name="after_namespace",
            field=models.TextField(db_collation="C", db_default="", default=""),
        ),
    ]

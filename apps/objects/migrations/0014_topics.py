"""The numbers of row-native tables, raised by a trigger with every statement that changes such a table.

Row-native values have no version and no line in the change log. Live pages learn from the numbers what has changed.
"""

from django.db import migrations, models

_TOUCH = """
    CREATE SEQUENCE objects_topic_numbers;
    CREATE FUNCTION objects_touch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO objects_topic (name, number) VALUES (TG_ARGV[0], nextval('objects_topic_numbers'))
        ON CONFLICT (name) DO UPDATE SET number = excluded.number;
        RETURN NULL;
    END $$"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0013_column_defaults")]

    operations = [
        migrations.CreateModel(
            name="Topic",
            fields=[
                ("name", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
            ],
            options={"verbose_name": "number of a table", "verbose_name_plural": "numbers of tables"},
        ),
        migrations.RunSQL(_TOUCH, "DROP FUNCTION objects_touch(); DROP SEQUENCE objects_topic_numbers"),
    ]

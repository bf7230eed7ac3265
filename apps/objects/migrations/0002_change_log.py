"""The change log, partitioned by version. Partitions are made ahead and dropped by `apps.objects.change_log`."""

from django.db import migrations, models

from apps.objects.compression import compression

TABLE = """
CREATE TABLE objects_changelog (
    version bigint NOT NULL PRIMARY KEY,
    type text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    doc text NOT NULL,
    old_doc text,
    actor text COLLATE "C" NOT NULL,
    reason text COLLATE "C" NOT NULL,
    cause bigint NOT NULL,
    at timestamp with time zone NOT NULL
) PARTITION BY RANGE (version);
CREATE INDEX changelog_object ON objects_changelog (kind, namespace, name, version);
"""
FIRST = f"""
CREATE TABLE objects_changelog_1_1000001 PARTITION OF objects_changelog FOR VALUES FROM (1) TO (1000001);
{compression("objects_changelog_1_1000001", "doc", "old_doc")};
"""


class Migration(migrations.Migration):
    dependencies = [("objects", "0001_tables")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(TABLE, "DROP TABLE objects_changelog"),
                migrations.RunSQL(FIRST, migrations.RunSQL.noop),
            ],
            state_operations=[
                migrations.CreateModel(
                    name="ChangeLog",
                    fields=[
                        ("version", models.BigIntegerField(primary_key=True, serialize=False)),
                        ("type", models.TextField(db_collation="C")),
                        ("kind", models.TextField(db_collation="C")),
                        ("namespace", models.TextField(db_collation="C")),
                        ("name", models.TextField(db_collation="C")),
                        ("doc", models.TextField()),
                        ("old_doc", models.TextField(null=True)),
                        ("actor", models.TextField(db_collation="C")),
                        ("reason", models.TextField(db_collation="C")),
                        ("cause", models.BigIntegerField()),
                        ("at", models.DateTimeField()),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["kind", "namespace", "name", "version"], name="changelog_object")
                        ],
                    },
                ),
            ],
        ),
    ]

"""The table of tallies, and the function that triggers use to change them.

A trigger per table and operation passes the rows that its statement has removed and added. The arguments of
`objects_tally` are what is counted, and SQL for the cluster, the state and the reason of a row.
"""

from django.db import migrations, models

_TALLY = """
    CREATE FUNCTION objects_tally() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        columns text := format('%s AS cluster, %s AS state, %s AS reason', TG_ARGV[1], TG_ARGV[2], TG_ARGV[3]);
        added text := format('SELECT %s, 1 AS change FROM added', columns);
        removed text := format('SELECT %s, -1 AS change FROM removed', columns);
    BEGIN
        EXECUTE format(
            'INSERT INTO objects_tally AS t (counted, cluster, state, reason, number)
            SELECT %L, cluster, state, reason, sum(change) FROM (%s) changed
            GROUP BY cluster, state, reason HAVING sum(change) <> 0
            ON CONFLICT (counted, cluster, state, reason) DO UPDATE SET number = t.number + excluded.number',
            TG_ARGV[0],
            CASE TG_OP WHEN 'INSERT' THEN added WHEN 'DELETE' THEN removed ELSE added || ' UNION ALL ' || removed END);
        DELETE FROM objects_tally WHERE counted = TG_ARGV[0] AND number = 0;
        RETURN NULL;
    END $$"""


def closed(table: str) -> str:
    """Return the statement after which nothing writes a table until the migration is done. It is the lock that the
    creation of a trigger takes, before the rows are counted."""
    return f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE"


def tallied(
    table: str, counted: str, *, cluster: str, state: str = "''", reason: str = "''", trigger: str = "tally"
) -> migrations.RunSQL:
    """Return the operation that counts the rows of a table from now on.

    `cluster`, `state`, `reason`: SQL of a row. A row for which it yields several clusters counts once for each.
    `trigger`: part of the names of the triggers.
    """
    arguments = ", ".join("'" + one.replace("'", "''") + "'" for one in (counted, cluster, state, reason))
    enter = [
        closed(table),  # what is written between the count and the triggers would never be counted
        f"""
        INSERT INTO objects_tally (counted, cluster, state, reason, number)
        SELECT '{counted}', {cluster}, {state}, {reason}, count(*) FROM {table} GROUP BY 1, 2, 3, 4""",
    ]
    rows = {"insert": "NEW TABLE AS added", "delete": "OLD TABLE AS removed"}
    rows["update"] = f"{rows['delete']} {rows['insert']}"
    enter += [
        f"""
        CREATE TRIGGER {table}_{trigger}_{operation} AFTER {operation.upper()} ON {table} REFERENCING {transition}
        FOR EACH STATEMENT EXECUTE FUNCTION objects_tally({arguments})"""
        for operation, transition in rows.items()
    ]
    leave = [f"DROP TRIGGER {table}_{trigger}_{operation} ON {table}" for operation in rows]
    return migrations.RunSQL(enter, [*leave, f"DELETE FROM objects_tally WHERE counted = '{counted}'"])


class Migration(migrations.Migration):
    dependencies = [("objects", "0014_topics")]

    operations = [
        migrations.CreateModel(
            name="Tally",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("counted", models.TextField(db_collation="C")),
                ("cluster", models.TextField(db_collation="C")),
                ("state", models.TextField(db_collation="C")),
                ("reason", models.TextField(db_collation="C")),
                ("number", models.BigIntegerField()),
            ],
            options={
                "verbose_name_plural": "tallies",
                "constraints": [
                    models.UniqueConstraint(fields=("counted", "cluster", "state", "reason"), name="one_tally")
                ],
            },
        ),
        migrations.RunSQL(_TALLY, "DROP FUNCTION objects_tally()"),
    ]

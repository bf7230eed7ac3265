"""Changes of the eviction queue get versions, so that evictions can be watched from a version.

Rows of copies that stay are not evictions and are not logged. The statement's transaction holds the write lock or gets
it here, so these versions are committed in order as well. A change that an Eviction does not show gets no version.
"""

from django.db import migrations

_LISTED = "({0}.due_at IS NOT NULL OR {0}.state IN ('Evicted', 'Abandoned'))"
_SHOWN = "resource_kind, priority, due_at, queued_at, state, reason, message, judged, ended_at"
_BEFORE, _AFTER = (", ".join(f"{row}.{name}" for name in _SHOWN.split(", ")) for row in ("o", "n"))

_LOG = f"""
    CREATE FUNCTION failover_log_evictions() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        number bigint;
        newest bigint;
        found failover_eviction_change[];
    BEGIN
        IF TG_OP = 'INSERT' THEN
            found := array(SELECT (n.key, NULL, false)::failover_eviction_change FROM added n
                WHERE {_LISTED.format("n")} ORDER BY n.key);
        ELSIF TG_OP = 'DELETE' THEN
            found := array(SELECT (o.key, to_jsonb(o), true)::failover_eviction_change FROM removed o
                WHERE {_LISTED.format("o")} ORDER BY o.key);
        ELSE
            found := array(
                SELECT (n.key,
                    CASE WHEN NOT {_LISTED.format("o")} THEN NULL WHEN NOT {_LISTED.format("n")} THEN to_jsonb(o)
                        ELSE jsonb_build_object('state', o.state, 'reason', o.reason) END,
                    NOT {_LISTED.format("n")})::failover_eviction_change
                FROM removed o JOIN added n ON n.key = o.key
                WHERE ({_LISTED.format("o")} OR {_LISTED.format("n")}) AND ({_BEFORE}) IS DISTINCT FROM ({_AFTER})
                ORDER BY n.key);
        END IF;
        number := cardinality(found);
        IF number > 0 THEN
            INSERT INTO objects_counter AS c (id, version) VALUES (1, number)
                ON CONFLICT (id) DO UPDATE SET version = c.version + excluded.version RETURNING version INTO newest;
            INSERT INTO objects_rowchange (version, of, key, before, removed)
                SELECT newest - number + place, 'Eviction', key, before, gone
                FROM unnest(found) WITH ORDINALITY AS one (key, before, gone, place);
        END IF;
        RETURN NULL;
    END $$"""

_ROWS = {"insert": "NEW TABLE AS added", "delete": "OLD TABLE AS removed"}
_ROWS["update"] = f"{_ROWS['delete']} {_ROWS['insert']}"


class Migration(migrations.Migration):
    dependencies = [("failover", "0018_notices"), ("objects", "0020_row_changes")]

    operations = [
        migrations.RunSQL(
            "CREATE TYPE failover_eviction_change AS (key text, before jsonb, gone boolean)",
            "DROP TYPE failover_eviction_change",
        ),
        migrations.RunSQL(_LOG, "DROP FUNCTION failover_log_evictions()"),
        *(
            migrations.RunSQL(
                f"CREATE TRIGGER failover_eviction_log_{operation} AFTER {operation.upper()} ON failover_eviction"
                f" REFERENCING {rows} FOR EACH STATEMENT EXECUTE FUNCTION failover_log_evictions()",
                f"DROP TRIGGER failover_eviction_log_{operation} ON failover_eviction",
            )
            for operation, rows in _ROWS.items()
        ),
    ]

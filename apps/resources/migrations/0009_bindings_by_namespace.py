"""Bindings are counted by kind and namespace.

Neither changes, so that updates of bindings cost nothing. The function has no dynamic SQL, so that its plans are kept:
it runs in each transaction that creates a binding.
"""

from importlib import import_module

from django.db import migrations

closed = import_module("apps.objects.migrations.0015_tallies").closed

_COUNT = """
    INSERT INTO objects_tally (counted, cluster, state, reason, number)
    SELECT 'Binding', '', kind, namespace, count(*) FROM resources_binding GROUP BY kind, namespace"""
_ADD = """
    CREATE FUNCTION resources_binding_added() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO objects_tally AS t (counted, cluster, state, reason, number)
        SELECT 'Binding', '', kind, namespace, count(*) FROM added GROUP BY kind, namespace
        ON CONFLICT (counted, cluster, state, reason) DO UPDATE SET number = t.number + excluded.number;
        RETURN NULL;
    END $$"""
_REMOVE = """
    CREATE FUNCTION resources_binding_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        UPDATE objects_tally t SET number = t.number - r.number
        FROM (SELECT kind, namespace, count(*) AS number FROM removed GROUP BY kind, namespace) r
        WHERE t.counted = 'Binding' AND t.cluster = '' AND t.state = r.kind AND t.reason = r.namespace;
        DELETE FROM objects_tally WHERE counted = 'Binding' AND number = 0;
        RETURN NULL;
    END $$"""
_TRIGGER = """
    CREATE TRIGGER resources_binding_tally_{1} AFTER {1} ON resources_binding REFERENCING {2} TABLE AS {0}
    FOR EACH STATEMENT EXECUTE FUNCTION resources_binding_{0}()"""


class Migration(migrations.Migration):
    dependencies = [("resources", "0008_quota_use"), ("objects", "0015_tallies")]

    operations = [
        migrations.RunSQL([closed("resources_binding"), _COUNT], "DELETE FROM objects_tally WHERE counted = 'Binding'"),
        migrations.RunSQL(_ADD, "DROP FUNCTION resources_binding_added()"),
        migrations.RunSQL(_REMOVE, "DROP FUNCTION resources_binding_removed()"),
        migrations.RunSQL(
            _TRIGGER.format("added", "insert", "NEW"),
            "DROP TRIGGER resources_binding_tally_insert ON resources_binding",
        ),
        migrations.RunSQL(
            _TRIGGER.format("removed", "delete", "OLD"),
            "DROP TRIGGER resources_binding_tally_delete ON resources_binding",
        ),
    ]

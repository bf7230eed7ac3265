"""Compress documents, leave room for updates, and number marks."""

from django.db import migrations

from apps.objects.compression import compressed, roomy


class Migration(migrations.Migration):
    dependencies = [("objects", "0002_change_log")]

    operations = [
        compressed("objects_object", "doc"),
        roomy("objects_object"),
        compressed("objects_event", "doc"),
        roomy("objects_event"),
        roomy("objects_due"),
        migrations.RunSQL("CREATE SEQUENCE objects_due_mark CACHE 100", "DROP SEQUENCE objects_due_mark"),
        migrations.RunSQL("ALTER TABLE objects_counter SET (fillfactor = 10)", migrations.RunSQL.noop),
        # The row stays when this is reversed: versions must not begin again.
        migrations.RunSQL(
            "INSERT INTO objects_counter (id, version) VALUES (1, 0) ON CONFLICT (id) DO NOTHING",
            migrations.RunSQL.noop,
        ),
    ]

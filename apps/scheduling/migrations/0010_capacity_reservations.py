"""Rename the model Promise, its table, indexes and sequence, and the due rows of its controller.

Processes that write meanwhile wait for the write lock, as in `resources.0011_closed_clusters`.
"""

from django.db import migrations

from apps.objects.due import WRITE_LOCK

OLD, NEW = "scheduling_promise", "scheduling_capacityreservation"


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0009_column_defaults"), ("objects", "0013_column_defaults")]

    operations = [
        migrations.RunSQL(WRITE_LOCK, migrations.RunSQL.noop),
        migrations.RenameModel("Promise", "CapacityReservation"),
        *(
            migrations.RenameIndex("capacityreservation", f"reservation_{column}", f"promise_{column}")
            for column in ("number", "cluster", "binding", "made_at")
        ),
        migrations.RunSQL(
            f"ALTER SEQUENCE {OLD}_numbers RENAME TO {NEW}_numbers",
            f"ALTER SEQUENCE {NEW}_numbers RENAME TO {OLD}_numbers",
        ),
        migrations.RunSQL(
            "UPDATE objects_due SET controller = 'reservations' WHERE controller = 'promises'",
            [WRITE_LOCK, "UPDATE objects_due SET controller = 'promises' WHERE controller = 'reservations'"],
        ),
    ]

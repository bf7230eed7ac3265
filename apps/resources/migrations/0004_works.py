"""Two Works to a page instead of one, and their labels in a short list: half of what storing one writes."""

from django.contrib.postgres.indexes import GinIndex
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0003_pending_lists"),
    ]

    operations = [
        # A Work takes a third of a page: beside two of them no room is left for a third version, beside one all is.
        migrations.RunSQL(
            "ALTER TABLE resources_work SET (fillfactor = 90)", "ALTER TABLE resources_work SET (fillfactor = 70)"
        ),
        migrations.RemoveIndex(
            model_name="work",
            name="work_labels",
        ),
        migrations.AddIndex(
            model_name="work",
            index=GinIndex(fastupdate=True, fields=["labels"], gin_pending_list_limit=64, name="work_labels"),
        ),
    ]

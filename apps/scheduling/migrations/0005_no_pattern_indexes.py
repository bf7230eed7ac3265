"""Drop the indexes Django adds to text keys for LIKE: keys sort by code point, so the key's own index serves it."""

from django.db import migrations

# table: name of the index
INDEXES = {
    "scheduling_promise": "scheduling_promise_key_8423ecb9_like",
    "scheduling_placementnote": "scheduling_placementnote_key_39c4597b_like",
}


def dropped(table: str, index: str) -> migrations.RunSQL:
    """Return the operation that drops one of them."""
    return migrations.RunSQL(f"DROP INDEX IF EXISTS {index}", f"CREATE INDEX {index} ON {table} (key text_pattern_ops)")


class Migration(migrations.Migration):
    dependencies = [("scheduling", "0004_placement_hints")]

    operations = [dropped(table, index) for table, index in INDEXES.items()]

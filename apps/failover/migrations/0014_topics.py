"""Changes of the eviction queue and of the state of the fleet raise their numbers, for live pages."""

from django.db import migrations

_TABLES = {"failover_eviction": "Eviction", "failover_fleetstate": "FleetState"}


def _on(table: str, name: str) -> str:
    return f"""
        CREATE TRIGGER {table}_touch AFTER INSERT OR UPDATE OR DELETE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION objects_touch('{name}')"""


class Migration(migrations.Migration):
    dependencies = [("failover", "0013_unhealthy_copies"), ("objects", "0014_topics")]

    operations = [
        migrations.RunSQL(_on(table, name), f"DROP TRIGGER {table}_touch ON {table}") for table, name in _TABLES.items()
    ]

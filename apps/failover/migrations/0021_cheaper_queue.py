"""A change of the eviction queue costs less of the time for which the write lock is held.

The rows before and after an update are joined by hash. Sessions plan without that, so each row was compared with each,
which took 100 ms for 1,000 rows. The tallies have functions of their own. The
indexes for LIKE are dropped: keys sort by code point, so the key's own index serves it.
"""

from importlib import import_module

from django.db import migrations

_before = import_module("apps.failover.migrations.0015_tallies")
tallied_by_functions = import_module("apps.objects.migrations.0023_tally_functions").tallied_by_functions
dropped = import_module("apps.scheduling.migrations.0005_no_pattern_indexes").dropped

_PLANNING = {"enable_hashjoin": "on", "enable_nestloop": "off"}
QUEUE, TASKS = "failover_eviction", "failover_gracefulevictiontask"


class Migration(migrations.Migration):
    dependencies = [
        ("failover", "0020_answers_of_places"),
        ("objects", "0023_tally_functions"),
        ("scheduling", "0005_no_pattern_indexes"),
    ]

    operations = [
        migrations.RunSQL(
            [f"ALTER FUNCTION failover_log_evictions() SET {name} = {value}" for name, value in _PLANNING.items()],
            [f"ALTER FUNCTION failover_log_evictions() RESET {name}" for name in _PLANNING],
        ),
        *tallied_by_functions(QUEUE, "Eviction", cluster="cluster", state=_before._STATE, reason="reason"),
        *tallied_by_functions(TASKS, "GracefulEvictionTask", cluster="from_cluster", state="purge_mode"),
        dropped(QUEUE, "failover_eviction_key_652382e8_like"),
        dropped("failover_bindingreadiness", "failover_bindingreadiness_key_b5b3dea3_like"),
    ]

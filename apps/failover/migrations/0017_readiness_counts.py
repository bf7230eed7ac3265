"""Answers about readiness are counted by verdict and obstacles, and a round over all bindings renews live pages."""

from importlib import import_module

from django.db import migrations

tallied = import_module("apps.objects.migrations.0015_tallies").tallied

_TOUCH = """
    CREATE TRIGGER failover_readinessround_touch AFTER INSERT OR UPDATE OR DELETE ON failover_readinessround
    FOR EACH STATEMENT EXECUTE FUNCTION objects_touch('ReadinessRound')"""


class Migration(migrations.Migration):
    dependencies = [("failover", "0016_readiness"), ("objects", "0015_tallies")]

    operations = [
        tallied("failover_bindingreadiness", "BindingReadiness", cluster="''", state="verdict", reason="named"),
        migrations.RunSQL(_TOUCH, "DROP TRIGGER failover_readinessround_touch ON failover_readinessround"),
    ]

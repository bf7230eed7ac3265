"""Which process serves the figures of the fleet, and what they count."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from apps.api import debug, fleet_metrics
from apps.api.heartbeat_intake import Listening
from apps.objects import configuration
from apps.objects.models import Lease
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Ref
from controlplane.clusters.heartbeats import LISTENING
from controlplane.controllers import CONTROLLERS
from controlplane.kinds import CLUSTER

pytestmark = pytest.mark.django_db(transaction=True)

CONTROLLER = "cluster_taints"


def ended(shard: int, seconds: float) -> None:
    """Let the lease of a process end so many seconds ago; negative: in the future."""
    with connection.cursor() as cursor:
        query = "UPDATE objects_lease SET until = clock_timestamp() - %s * interval '1 second' WHERE shard = %s"
        cursor.execute(query, [seconds, shard])


@pytest.mark.parametrize(
    ("first", "second", "serves"),
    [(-5, -5, "one"), (2, -5, "two"), (-5, 2, "one"), (31, 30, "one"), (40, 30, "two")],
    ids=["both run", "one has ended", "the other one has ended", "refused writes", "refused writes, one had ended"],
)
def test_one_process_serves_the_figures_of_the_fleet_also_while_no_lease_can_be_renewed(
    first: float, second: float, serves: str
) -> None:
    """A full disk or a standby: nothing can be written, and the alerts about clusters would be silent."""
    store = DjangoStore(controllers=CONTROLLERS)
    for shard, holder in enumerate(("one", "two")):
        assert store.take_lease(LISTENING, shard, holder=holder, seconds=5) is not None
    ended(0, first)
    ended(1, second)

    assert fleet_metrics._first_holder() == serves


@pytest.mark.parametrize(("number", "lease"), [(0, 0), (1, 32)])
def test_the_first_process_of_a_server_serves_the_figures_of_the_fleet(number: int, lease: int) -> None:
    """Its port is the one that is scraped in any case. Of four processes, one of the others served them before."""
    listening = Listening(number)
    listening.start()
    listening.stop()

    assert Lease.objects.get(name=LISTENING).shard == lease


@pytest.mark.parametrize("is_disabled", [False, True], ids=["enabled", "disabled"])
def test_what_waits_for_a_controller_that_is_disabled_is_not_late(
    is_disabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits on purpose, and for ever: the alert LifeboatControllerBehind would never end."""
    monkeypatch.setenv("LIFEBOAT_CONTROLLERS", f"*,-{CONTROLLER}" if is_disabled else "*")
    configuration.base.cache_clear()
    monkeypatch.setattr(debug, "_last", None)
    DjangoStore(controllers=CONTROLLERS).mark(CONTROLLER, [Ref(CLUSTER, "", "member1")])
    with connection.cursor() as cursor:
        cursor.execute("UPDATE objects_due SET due_at = clock_timestamp() - interval '1 hour'")

    try:
        served = generate_latest(debug.FLEET).decode()
    finally:
        configuration.base.cache_clear()
    families = {one.name: one for one in text_string_to_metric_families(served)}

    def figure(name: str) -> Any:
        return next(one.value for one in families[name].samples if one.labels["controller"] == CONTROLLER)

    assert (figure("lifeboat_due_oldest_seconds") > 60) is not is_disabled
    assert figure("lifeboat_due_objects") == 1

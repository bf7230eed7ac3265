"""Settings reach the running server: at once where they change at run time, at its start where they do not."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.api.server import Client, Server
from tests.api.test_readiness import bind

CONFIGURATIONS = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations"
OPEN = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "FailoverConfiguration",
    "metadata": {"name": "default"},
    "spec": {"featureGates": {"Failover": True}},
}


def seen_within_a_second(holds: Callable[[], bool]) -> None:
    """Look until it holds; a test that begins to look a second later sees it, however long a look takes here."""
    ends = time.monotonic() + 1.0
    began = time.monotonic()
    while not holds():
        assert began < ends
        began = time.monotonic()


def test_a_setting_changed_at_run_time_counts_within_a_second(api: Client, namespace: str) -> None:
    readiness = bind(api, namespace)

    def shut() -> bool:
        return "GateOff" in {one["what"] for one in api.get(readiness).document["obstacles"]}

    assert shut()
    made = api.post(CONFIGURATIONS, OPEN)
    try:
        assert made.status == 201, made.body
        seen_within_a_second(lambda: not shut())
    finally:
        assert api.delete(f"{CONFIGURATIONS}/default").status == 200
    seen_within_a_second(shut)


def test_an_agent_learns_how_long_its_lease_is_and_how_often_to_renew_it(server: Server, namespace: str) -> None:
    reported = {"LIFEBOAT_CLUSTER_LEASE_DURATION": "20", "LIFEBOAT_CLUSTER_LEASE_RENEW_FRACTION": "0.1"}

    usual = server.manage("join", f"{namespace}-a", "--pull")
    server.environment.update(reported)
    try:
        other = server.manage("join", f"{namespace}-b", "--pull")
    finally:
        for name in reported:
            del server.environment[name]

    assert "(duration 40 s) every 10 s" in usual
    assert "(duration 20 s) every 2 s" in other

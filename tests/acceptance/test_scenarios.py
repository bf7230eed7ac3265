"""The three scenarios of the failover guide on the running product: an offline application, a whole application, a
maintenance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.live import CLUSTERS, MEMBERS, Live
from tests.acceptance.manifests import KEY, ONE, divided, on, policy, taint_policy, workload
from tests.acceptance.serving import Serving

pytestmark = pytest.mark.slow

SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "server"},
    "spec": {"selector": {"app": "server"}, "ports": [{"port": 80}]},
}
DRAIN = {
    "apiVersion": "failover.lifeboat.io/v1alpha1",
    "kind": "Drain",
    "metadata": {"name": "upgrade"},
    "spec": {"rate": 2, "reason": "new network"},
}
DRAINS = "/apis/failover.lifeboat.io/v1alpha1/drains"
PARTS = (
    ("apps/v1", "Deployment", "server"),
    ("apps/v1", "StatefulSet", "database"),
    ("v1", "ConfigMap", "settings"),
    ("v1", "Service", "server"),
)
PART_BINDINGS = ("server-deployment", "database-statefulset", "settings-configmap", "server-service")


def test_s002_scenario_1_the_instances_of_an_offline_application_move_to_other_clusters(fleet: Live, ns: str) -> None:
    three = on("member1", "member2", "member3", **divided("Weighted", dynamicWeight="AvailableReplicas"))
    fleet.apply(taint_policy(), policy("batch", three), workload("batch", 9), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "batch-deployment"))
    assert set(fleet.placed(ns, "batch-deployment")) == {"member1", "member2", "member3"}

    fleet.fail("member1")
    fleet.until(lambda: "member1" not in fleet.placed(ns, "batch-deployment"))
    fleet.until(lambda: fleet.settled(ns, "batch-deployment"))

    after = fleet.placed(ns, "batch-deployment")
    assert set(after) == {"member2", "member3"}
    assert sum(after.values()) == 9
    assert fleet.ready(ns, "batch") == after


def online(fleet: Live, ns: str) -> str:
    """Run an application of four parts under one policy; return the cluster all of them are on.

    Each for itself would go elsewhere: pods to the roomiest cluster, member4, what has none to the first by name.
    """
    fleet.nodes(member1=1, member2=1, member3=2, member5=1)
    fleet.apply(
        policy("online", ONE, *PARTS),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"mode": "online"}},
        SERVICE,
        workload("server", 2),
        workload("database", 2, kind="StatefulSet", serviceName="server"),
        namespace=ns,
    )
    fleet.until(lambda: fleet.settled(ns, *PART_BINDINGS) and len(homes(fleet, ns)) == 1)
    (home,) = homes(fleet, ns)
    return home


def tainted(fleet: Live, home: str) -> None:
    taint = {"key": KEY, "effect": "NoExecute"}
    fleet.patch(f"{CLUSTERS}/{home}", {"spec": {"taints": [taint]}})


def unhealthy(fleet: Live, home: str) -> None:
    fleet.fail(home, fault="unhealthy")


def homes(fleet: Live, ns: str) -> set[str]:
    """Return the clusters the parts of the application are on."""
    return {cluster for part in PART_BINDINGS for cluster in fleet.placed(ns, part)}


@pytest.mark.parametrize("trouble", [unhealthy, tainted])
def test_s002_scenario_2_a_whole_application_moves_and_never_stops_serving(
    fleet: Live, ns: str, trouble: Callable[[Live, str], None]
) -> None:
    """The cluster is faulty, or a user says it is, but what runs there still serves; pods on the new one need time."""
    fleet.apply(taint_policy())
    home = online(fleet, ns)
    fleet.pods_ready_after(2.0)

    with Serving(fleet, ns, "server") as serving:
        trouble(fleet, home)
        fleet.until(lambda: home not in homes(fleet, ns))
        fleet.until(lambda: fleet.settled(ns, *PART_BINDINGS))
        fleet.heal(home)
        fleet.until(lambda: has_moved(fleet, ns))

    ends = homes(fleet, ns)
    assert len(ends) == 1, {part: fleet.placed(ns, part) for part in PART_BINDINGS}
    assert serving.least > 0, serving.counts


def has_moved(fleet: Live, ns: str) -> bool:
    """Test whether members have all of the application where it is placed, and nothing of it anywhere else."""
    path = f"/api/v1/namespaces/{ns}/services/server"
    holding = {member for member in MEMBERS if fleet.member(member, "GET", path)}
    ready = [fleet.ready(ns, "server"), fleet.ready(ns, "database", "statefulsets")]
    return holding == homes(fleet, ns) and ready == [dict.fromkeys(holding, 2)] * 2


def test_s002_scenario_3_a_cluster_is_emptied_for_its_maintenance_and_the_service_goes_on(fleet: Live, ns: str) -> None:
    home = online(fleet, ns)
    fleet.pods_ready_after(2.0)

    with Serving(fleet, ns, "server") as serving:
        fleet.apply({**DRAIN, "spec": {**DRAIN["spec"], "cluster": home}})
        fleet.until(lambda: fleet.get(f"{DRAINS}/upgrade").get("status", {}).get("phase") == "Finished")
        fleet.until(lambda: has_moved(fleet, ns))

    (refuge,) = homes(fleet, ns)
    assert refuge != home
    assert serving.least > 0, serving.counts
    drained = fleet.get(f"{DRAINS}/upgrade")["status"]
    assert (drained["moved"], drained.get("cannotLeave")) == (4, None)

"""Failback over HTTP: created like any object, refused where it is known that nothing may go back yet
[edits-by-hand]."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.names import BEFORE_FAILOVER_ANNOTATION as HOME
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import Binding, TargetCluster
from controlplane.kinds.binding.origin import with_departures
from tests.api.controllers import work
from tests.api.server import Answer, Client, Server
from tests.builders.documents import CLUSTERS, TABLE, cluster

FAILBACKS = "/apis/failover.lifeboat.io/v1alpha1/failbacks"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def join(api: Client, server: Server, name: str, *, ready: str = "True", since: datetime | None = LONG_AGO) -> str:
    """A cluster that became Ready, or not, at a time; None is now."""
    assert api.post(CLUSTERS, cluster(name)).status == 201
    condition = {"type": "Ready", "status": ready, "reason": "Test"}
    serves = {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
    status = {"conditions": [condition], "apiEnablements": [serves]}
    assert api.patch(f"{CLUSTERS}/{name}/status", {"status": status}).status == 200
    if since is not None:
        at = f'"lastTransitionTime":"{since:%Y-%m-%dT%H:%M:%SZ}"'
        moved = f"""regexp_replace(doc, '"lastTransitionTime":"[^"]*"', '{at}', 'g')"""
        server.sql(f"UPDATE clusters_cluster SET doc = {moved} WHERE name = '{name}' RETURNING 1")
    return name


def away(api: Client, namespace: str, origin: str, refuge: str, *, workload: str = "web") -> str:
    """A binding that left one cluster for another, as an evicting controller would write it; return its name."""
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": workload, "namespace": namespace}
    placement = {
        "clusterAffinity": {"clusterNames": [origin, refuge]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
    }
    spec: dict[str, Any] = {
        "resource": resource,
        "replicas": 2,
        "replicaRequirements": {},
        "placement": placement,
        "clusters": [{"name": refuge, "replicas": 2}],
    }
    where = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings"
    name = f"{workload}-deployment"
    made = api.post(where, {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made.body
    assert api.patch(f"{where}/{name}", {"metadata": {"annotations": {HOME: note(made, origin)}}}).status == 200
    return f"{namespace}/{name}"


def note(made: Answer, origin: str) -> str:
    """What an evicting controller writes on a binding that leaves a cluster."""
    now: Binding = msgspec.convert(made.document, Binding)
    then = now.with_spec(clusters=(TargetCluster(origin, 2),))
    left = with_task(then, origin, mode="Gracefully", reason="", producer="", message="", now=LONG_AGO)
    return with_departures(left, then, now=LONG_AGO).metadata.annotations[HOME]


def ask(api: Client, name: str, **spec: Any) -> Answer:
    return api.post(FAILBACKS, {"metadata": {"name": name}, "spec": spec})


def causes(answer: Answer) -> dict[str, str]:
    assert answer.status == 422, answer.body
    return {cause["field"]: cause["message"] for cause in answer.document["details"]["causes"]}


def test_a_failback_is_created_and_seen_in_a_table(api: Client, server: Server, namespace: str) -> None:
    origin = join(api, server, f"{namespace}-a")

    made = ask(api, f"{namespace}-home", cluster=origin, rate=2, reason="the network is mended")

    assert made.status == 201, made.body
    assert made.document["spec"] == {
        "cluster": origin,
        "rate": 2.0,
        "reason": "the network is mended",
        "atOnce": 10,  # the declared default
    }
    columns = [column["name"] for column in api.get(FAILBACKS, accept=TABLE).document["columnDefinitions"]]
    assert columns[:6] == ["Name", "Subject", "Phase", "Returned", "Returning", "Remaining"]
    assert api.get(f"{FAILBACKS}/{namespace}-home/status").status == 200


@pytest.mark.parametrize(
    ("ready", "since", "why"),
    [("False", LONG_AGO, "is not Ready"), ("True", None, "Ready for less than 10 minutes")],
)
def test_it_is_refused_while_its_cluster_is_not_well(
    api: Client, server: Server, namespace: str, ready: str, since: datetime | None, why: str
) -> None:
    origin = join(api, server, f"{namespace}-a", ready=ready, since=since)

    reported = causes(ask(api, f"{namespace}-home", cluster=origin))

    assert why in reported["spec.cluster"]
    assert api.get(f"{FAILBACKS}/{namespace}-home").status == 404


def test_it_is_refused_while_its_cluster_is_tainted(api: Client, server: Server, namespace: str) -> None:
    origin = join(api, server, f"{namespace}-a")
    taint = {"key": "power", "effect": "NoExecute"}
    assert api.patch(f"{CLUSTERS}/{origin}", {"spec": {"taints": [taint]}}).status == 200

    assert "taint power:NoExecute" in causes(ask(api, f"{namespace}-home", cluster=origin))["spec.cluster"]


def test_everything_wrong_is_said_at_once(api: Client, namespace: str) -> None:
    reported = causes(ask(api, f"{namespace}-home", rate=-1, atOnce=1000))
    missing = causes(ask(api, f"{namespace}-home", cluster="nowhere", binding=f"{namespace}/nothing"))

    assert set(reported) == {"spec", "spec.rate", "spec.atOnce"}
    assert "is gone" in missing["spec.cluster"]
    assert "no such binding" in missing["spec.binding"]


def test_what_goes_back_is_not_edited(api: Client, server: Server, namespace: str) -> None:
    origin = join(api, server, f"{namespace}-a")
    ask(api, f"{namespace}-home", cluster=origin)
    where = f"{FAILBACKS}/{namespace}-home"

    assert "immutable" in causes(api.patch(where, {"spec": {"cluster": "other"}}))["spec.cluster"]
    assert api.patch(where, {"spec": {"stop": True}}).document["spec"]["stop"] is True


def test_a_binding_at_home_has_nowhere_to_go_back_to(api: Client, server: Server, namespace: str) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    binding = away(api, namespace, origin, refuge)
    where = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web-deployment"
    assert api.patch(where, {"metadata": {"annotations": {HOME: None}}}).status == 200

    assert "nothing moves back" in causes(ask(api, f"{namespace}-home", binding=binding))["spec.binding"]


def test_a_dry_run_says_what_would_go_back(api: Client, server: Server, namespace: str) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    binding = away(api, namespace, origin, refuge)
    made = ask(api, f"{namespace}-home", binding=binding, dryRun=True)
    assert made.status == 201, made.body

    work(server, "failbacks")

    status = server.client().get(f"{FAILBACKS}/{namespace}-home").document["status"]
    assert status["phase"] == "Planned", status
    (plan,) = status["planned"]
    assert (plan["cluster"], plan["replicas"], plan["leaves"]) == (origin, 2, [refuge])
    (complete,) = status["conditions"]
    assert (complete["type"], complete["status"], complete["reason"]) == ("Complete", "False", "Planned")

"""The eviction queue over HTTP: read like any kind, steered by four verbs, measured at /metrics."""

from __future__ import annotations

from datetime import datetime

import orjson
import pytest

from apps.api.query import Continue
from tests.api.server import Client, Server
from tests.builders.documents import TABLE

GROUP = "/apis/failover.lifeboat.io/v1alpha1"
TAINT = ("gone", "NoExecute", "2026-01-01T00:00:00Z")


def queue(server: Server, namespace: str, name: str, *, state: str = "Queued", reason: str = "") -> str:
    """Put a binding's copy on member1 into the queue; return the path of the eviction."""
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": name},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": namespace},
            "clusters": [{"name": "member1", "replicas": 1}],
        },
    }
    made = server.client().post(f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings", binding)
    assert made.status == 201, made.body
    ref = f"work.karmada.io/ResourceBinding:{namespace}/{name}"
    judged = orjson.dumps([dict(zip(("key", "effect", "timeAdded"), TAINT, strict=True)) | {"waitSeconds": 0}]).decode()
    server.sql(
        "INSERT INTO failover_eviction (key, binding, cluster, resource_kind, priority, due_at, queued_at, state,"
        " reason, message, generation, judged) VALUES ("
        f"'{ref}|member1', '{ref}', 'member1', 'apps/v1/Deployment', 0, now() - interval '1 s', now(), '{state}',"
        f" '{reason}', '', 1, '{judged}') RETURNING 1"
    )
    return f"{GROUP}/namespaces/{namespace}/evictions/{name}.member1"


def test_an_eviction_has_state_position_and_estimate(api: Client, server: Server, namespace: str) -> None:
    path = queue(server, namespace, "web")

    found = api.get(path).document

    assert found["kind"] == "Eviction"
    assert found["spec"]["cluster"] == "member1"
    assert found["status"]["state"] == "Queued"
    assert found["status"]["position"] >= 1
    assert found["status"]["message"].endswith("taint gone:NoExecute, not tolerated")
    assert "estimatedAt" in found["status"] or found["status"]["estimate"] == "stopped"
    assert api.get(path, rate="0").document["status"]["estimate"] == "stopped"
    assert "estimatedAt" in api.get(path, rate="5").document["status"]
    assert api.get(path, rate="fast").status == 400


def test_a_list_of_evictions_is_a_table_in_pages(api: Client, server: Server, namespace: str) -> None:
    for name in ("a", "b", "c"):
        queue(server, namespace, name)
    path = f"{GROUP}/namespaces/{namespace}/evictions"

    first = api.get(path, limit="2").document
    rest = api.get(path, limit="2", **{"continue": first["metadata"]["continue"]}).document
    table = api.get(path, accept=TABLE).document

    names = [one["metadata"]["name"] for one in first["items"] + rest["items"]]
    assert sorted(names) == ["a.member1", "b.member1", "c.member1"]
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:7] == ["Name", "Cluster", "State", "Reason", "Position", "Due", "ETA"]
    for name in ("web", "9" * 25, "9" * 5000):  # of a list in the order of names, and beyond every queue
        token = Continue(5, "", name).token()
        assert api.get(path, limit="2", **{"continue": token}).status == 400
    everywhere = api.get(f"{GROUP}/evictions").document["items"]
    assert {one["metadata"]["namespace"] for one in everywhere} >= {namespace}


def test_the_queue_says_when_it_ends_at_the_rate_one_asks_about(api: Client, server: Server, namespace: str) -> None:
    for name in ("a", "b", "c"):
        queue(server, namespace, name)

    def ends(rate: str) -> list[tuple[str, str]]:
        items = api.get(f"{GROUP}/evictions", rate=rate).document["items"]
        reported = [one["status"] for one in items if one["status"]["state"] == "Queued"]
        return [(one.get("estimatedAt", one.get("estimate")), one.get("queueEndsAt", "")) for one in reported]

    (*_, (last, end)) = ends("0.01")
    assert {end for _, end in ends("0")} == {""}
    assert {at for at, _ in ends("0")} == {"stopped"}
    assert abs((moment(last) - moment(end)).total_seconds()) < 1
    assert moment(ends("1")[0][1]) < moment(end)
    path = f"{GROUP}/namespaces/{namespace}/evictions/a.member1"
    assert moment(api.get(path, rate="1").document["status"]["queueEndsAt"]) < moment(end)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


EFFECTS = {
    "hold": "stays on cluster member1 until it is released",
    "release": "goes on in the order of the queue",
    "skip": "stays on cluster member1 while its present taints last",
    "expedite": "goes first, but stays",
}


@pytest.mark.parametrize("verb", EFFECTS)
def test_an_order_is_kept_on_the_binding_and_in_the_change_log(
    api: Client, server: Server, namespace: str, verb: str
) -> None:
    path = queue(server, namespace, "web")
    where = f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web"
    before = api.get(where).document["metadata"]
    asked = api.post(f"{path}/{verb}", {"reason": "we are on it"}, dryRun="All")
    assert asked.status == 201
    assert EFFECTS[verb] in asked.headers["warning"]
    assert api.get(where).document["metadata"] == before

    done = api.post(f"{path}/{verb}", {"reason": "we are on it"})

    assert done.status == 201, done.body
    binding = api.get(f"/apis/work.karmada.io/v1alpha2/namespaces/{namespace}/resourcebindings/web").document
    events = api.get(f"/api/v1/namespaces/{namespace}/events").document["items"]
    reported = [one for one in events if one["reason"] == f"Eviction{verb.capitalize()}Ordered"]
    assert {one["involvedObject"]["kind"] for one in reported} == {"ResourceBinding", "Deployment"}
    assert {one["message"].partition(" ")[0] for one in reported} == {"admin"}
    orders = orjson.loads(binding["metadata"].get("annotations", {}).get("failover.lifeboat.io/eviction-orders", "{}"))
    if verb == "release":
        assert orders == {}
        return
    (order,) = orders["member1"]
    assert order["verb"] == verb.capitalize()
    assert order["reason"] == "we are on it"
    assert order["taints"][0][:2] == ["gone", "NoExecute"]
    query = f"SELECT actor, reason FROM objects_changelog WHERE namespace = '{namespace}' AND name = 'web'"
    logged = server.sql(f"{query} ORDER BY version DESC LIMIT 1")
    assert logged[0][1] == f"Eviction{verb.capitalize()}: we are on it"
    assert logged[0][0] == order["by"]


def test_an_order_says_why_and_names_what_there_is(api: Client, server: Server, namespace: str) -> None:
    path = queue(server, namespace, "web")

    assert api.post(f"{path}/hold", {}).status == 422
    assert api.post(f"{path}/hold", {"reason": "with \0 in it"}).status == 422
    assert api.post(f"{path}/hold", {"reason": "long" * 300}).status == 422
    assert api.post(f"{path}/hold", ["no"]).status == 400
    assert api.post(f"{GROUP}/namespaces/{namespace}/evictions/nothing.member1/hold", {"reason": "x"}).status == 404
    assert api.post(f"{GROUP}/namespaces/{namespace}/evictions", {"reason": "x"}).status == 405
    assert api.delete(path).status == 405


def test_what_has_left_already_cannot_be_ordered_about(api: Client, server: Server, namespace: str) -> None:
    path = queue(server, namespace, "web", state="Evicted")

    refused = api.post(f"{path}/hold", {"reason": "x"})

    assert refused.status == 409
    assert "has already been evicted from cluster member1" in refused.document["message"]


def test_metrics_have_the_names_and_labels_of_s001(api: Client, server: Server, namespace: str) -> None:
    queue(server, namespace, "web", state="Held", reason="NoRefuge")

    text = api.get("/metrics").body.decode()

    for name in (
        'evict_total{cluster_name="member1"}',
        'evict_kind_total{cluster_name="member1",resource_kind="apps/v1/Deployment"}',
        'evict_processing_latency_seconds_bucket{cluster_name="member1",le="+Inf"}',
        'evict_rate{cluster_name="member1"}',
        "cluster_fault_num ",
        "cluster_fault_rate ",
        'lifeboat_evictions_held{reason="NoRefuge"}',
        "lifeboat_eviction_tier_rate{",
    ):
        assert f"\n{name}" in text, name


def test_holds_and_windows_are_admitted_with_a_reason(api: Client) -> None:
    hold = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "EvictionHold", "metadata": {"name": "no-reason"}}
    window = {**hold, "kind": "MaintenanceWindow", "spec": {"clusters": ["member1"], "reason": "kernel"}}

    refused = api.post(f"{GROUP}/evictionholds", {**hold, "spec": {}})
    unwritable = api.post(f"{GROUP}/evictionholds", {**hold, "spec": {"reason": "we \0 wait"}})
    nowhere = api.post(f"{GROUP}/evictionholds", {**hold, "spec": {"reason": "wait", "namespaces": ["shop", ""]}})
    unended = api.post(f"{GROUP}/maintenancewindows", window)

    assert [one.status for one in (refused, unwritable, nowhere, unended)] == [422] * 4
    assert nowhere.document["details"]["causes"][0]["field"] == "spec.namespaces[1]"
    assert {one.document["details"]["causes"][0]["field"] for one in (refused, unwritable)} == {"spec.reason"}
    assert unended.document["details"]["causes"][0]["field"] == "spec.until"

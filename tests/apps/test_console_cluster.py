"""The pages of clusters: what they show, what they cost, and acts that first say what they would do."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.api.expiries import certificate_expiry, token_expiry
from apps.console.page import within
from apps.objects.configuration import configuration
from apps.objects.models import ChangeLog
from apps.objects.store import store
from apps.objects.what_if import SMALL
from controlplane.apimachinery.meta import Condition, Ref
from controlplane.apimachinery.names import UNJOIN_ANNOTATION
from controlplane.clusters.taints import BY_READY, Ownership, with_owned
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER, KINDS, MAINTENANCE_WINDOW
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.cluster import Cluster, NodeSummary, ResourceSummary, Taint
from controlplane.kinds.drain import DRAIN
from controlplane.kinds.failback import FAILBACK
from controlplane.kinds.obstacle import BLOCKS, Obstacle
from controlplane.kinds.rows import BindingReadiness, Collected, Observation, ProbeSpell
from tests.apps.pages import change, lost_cluster, stored
from tests.apps.test_console_pages import HTML, page, queries
from tests.apps.test_console_queue import text
from tests.builders.bare import binding, cluster, meta

MEMBER1 = Ref(CLUSTER, "", "member1")
NOT_READY = Taint("cluster.karmada.io/not-ready", "NoSchedule")
ADDED = Taint("power", "NoSchedule")
OWNED = Ownership({BY_READY: ""})


def ready(name: str) -> Cluster:
    summary = ResourceSummary(allocatable={"cpu": "10", "pods": "100"}, allocated={"cpu": "4"}, allocating={"cpu": "1"})
    conditions = tuple(
        Condition(type_, "True", last_transition_time=store().now() - timedelta(hours=1))
        for type_ in ("Ready", "Established")
    )
    return cluster(name).with_status(conditions=conditions, resource_summary=summary)


def save(*rows: Any) -> None:
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))


def switch_failover_on(root: Client) -> None:
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    configuration().settings(reread=True)  # pages see a change within half a second


def live(ref: Ref = MEMBER1) -> Any:
    return store().get([ref])[ref]


def test_a_long_list_of_clusters_is_turned_page_by_page_and_keeps_its_filter(root: Client) -> None:
    stored(*(cluster(f"member{number:02}") for number in range(60)), cluster("other"))

    first = page(root, "/clusters?q=member")
    assert "1 to 50 of 60 clusters" in first
    assert 'href="/clusters?q=member&amp;offset=50"' in first
    second = page(root, "/clusters?q=member&offset=50")

    assert "51 to 60 of 60 clusters" in second
    assert [f">member{number:02}<" in first for number in (0, 49, 50)] == [True, True, False]
    assert [f">member{number:02}<" in second for number in (49, 50, 59)] == [False, True, True]
    assert "1 of 61 clusters" in page(root, "/clusters?q=other")


def test_a_cluster_is_shown_with_its_probes_taints_room_and_the_fate_of_its_workloads(root: Client) -> None:
    tainted = replace(ready("member1"), spec=cluster("member1", "NoExecute").spec)
    stored(tainted, ready("member2"), binding("web", "member1"), binding("api", "member1"))
    switch_failover_on(root)
    now = store().now()
    spells = (ProbeSpell("True", now - timedelta(hours=30)), ProbeSpell("False", now - timedelta(hours=2)))
    blocked = Obstacle("NoRefuge", BLOCKS, "no other cluster fits", "add nodes", "member1")
    save(
        Observation("member1", status="True", observed_at=now, history=(*spells, ProbeSpell("True", now))),
        BindingReadiness(str(binding("web").ref), "shop", "web", obstacles=(blocked,)),
        BindingReadiness(str(binding("api").ref), "shop", "api"),
    )

    text = page(root, "/clusters/member1")

    assert text.count("<rect") >= 3  # ready, not ready, ready
    assert "a user" in text  # owns the taint
    assert "4 + 1 starting of 10, 50 %" in text
    assert "no other cluster fits. add nodes" in text
    assert ">moves<" in text
    assert "kubectl get cluster member1 -o yaml" in text


def test_while_nothing_is_evicted_no_workload_of_a_cluster_is_said_to_move(root: Client) -> None:
    """Stored answers leave out what stops every failover: the gate, and the rate of a fleet that is mostly lost."""
    lost = Condition("Ready", "False", last_transition_time=store().now())
    stored(*(ready(f"member{number}") for number in range(1, 4)), binding("web", "member1"))
    save(BindingReadiness(str(binding("web").ref), "shop", "web"))

    assert "the feature gate Failover is off, so taints evict no copies. To change this: set" in text(
        root, "/clusters/member1"
    )
    assert ">moves<" not in page(root, "/clusters/member1")
    switch_failover_on(root)
    assert ">moves<" in page(root, "/clusters/member1")
    assert "No workload would leave now" not in text(root, "/clusters/member1")

    for name in ("member1", "member2"):
        one = live(Ref(CLUSTER, "", name))
        change(one, one.with_status(conditions=(lost, *one.status.conditions[1:])))

    shown = text(root, "/clusters/member1")
    assert "No workload would leave now: no evictions take place at present: 2 of 3 clusters are faulty" in shown
    assert " stays " in shown.split("What runs here")[1]
    assert ">moves<" not in page(root, "/clusters/member1")


def test_figures_of_a_cluster_out_of_reach_say_of_when_they_are(root: Client) -> None:
    now = store().now()
    since, read_at = now - timedelta(minutes=4), now - timedelta(minutes=5)
    down = Condition("Ready", "False", "ClusterNotReachable", last_transition_time=since)
    lost = AggregatedStatusItem(
        "member1", applied=True, health="Unknown", last_known_health="Healthy", out_of_reach_since=since
    )
    member = ready("member1").with_status(
        conditions=(down,), node_summary=NodeSummary(3, 3), kubernetes_version="v1.32"
    )
    stored(member, binding("web", "member1").with_status(aggregated_status=(lost,)))
    save(Collected("member1", at=read_at))

    shown = text(root, "/clusters/member1")

    assert f"reports was last known at {since:%Y-%m-%d %H:%M:%S} UTC" in shown
    for figure in ("v1.32", "3 of 3 ready", "read 5 min ago,"):
        assert re.search(rf"{figure} as of [\d-]* ?{read_at:%H:%M:%S} UTC", shown)
    assert re.search(rf"health as of [\d-]* ?{since:%H:%M:%S} UTC", shown)
    assert "last known Healthy" in shown


def test_the_table_of_clusters_is_filtered_by_state_and_words(root: Client) -> None:
    stored(ready("member1"), cluster("other"))

    assert "1 of 2 clusters" in page(root, "/clusters?state=Ready")
    assert "No cluster matches the filter." in page(root, "/clusters?q=nothing")


def test_the_pages_cost_as_many_queries_for_many_workloads_as_for_few(root: Client) -> None:
    stored(ready("member1"), binding("a", "member1"))
    few = [queries(root, path) for path in ("/clusters", "/clusters/member1")]
    stored(
        *(ready(f"other{number}") for number in range(8)), *(binding(f"b{number}", "member1") for number in range(60))
    )

    assert [queries(root, path) for path in ("/clusters", "/clusters/member1")] == few
    assert "Next page" in page(root, "/clusters/member1")


def test_a_cluster_that_does_not_exist_is_not_found_and_readers_are_offered_no_acts(
    root: Client, clerk: Client
) -> None:
    stored(ready("member1"))

    assert root.get("/clusters/nothing", HTTP_ACCEPT=HTML).status_code == 404
    assert "/clusters/member1/drain" in page(root, "/clusters/member1")
    assert "/clusters/member1/drain" not in page(clerk, "/clusters/member1")
    for act in ("cordon", "drain", "fence", "unjoin", "maintenance", "failback", "taint"):
        assert clerk.get(f"/clusters/member1/{act}", HTTP_ACCEPT=HTML).status_code == 403, act


def _cordoned() -> bool:
    return any(taint.key == "cluster.karmada.io/unschedulable" for taint in live().spec.taints)


def _tainted() -> bool:
    return [(taint.key, taint.effect) for taint in live().spec.taints] == [("example.com/disk", "NoSchedule")]


TAINT = {"key": "example.com/disk", "effect": "NoSchedule"}
ACTS: dict[str, tuple[dict[str, str], Callable[[], bool]]] = {
    "cordon": ({}, _cordoned),
    "taint": (TAINT, _tainted),
    "drain": (
        {"rate": "2"},
        lambda: [(one.spec.cluster, one.spec.rate) for one in store().list(DRAIN)] == [("member1", 2.0)],
    ),
    "maintenance": ({"minutes": "5"}, lambda: len(store().list(MAINTENANCE_WINDOW)) == 1),
    "failback": ({"rate": "1", "at_once": "3"}, lambda: [one.spec.at_once for one in store().list(FAILBACK)] == [3]),
    "unjoin": ({"copies": "keep"}, lambda: not store().get([MEMBER1]) or live().terminating),
}


@pytest.mark.parametrize("act", ACTS)
def test_an_act_shows_its_dry_run_and_is_done_with_who_and_why(root: Client, act: str) -> None:
    values, done = ACTS[act]
    stored(ready("member1"), ready("member2"), binding("web", "member1"))
    url = f"/clusters/member1/{act}"

    dry_run = root.get(url, values, HTTP_ACCEPT=HTML)
    assert dry_run.status_code == 200
    assert "What it would do now" in dry_run.content.decode()
    assert not done()
    refused = root.post(url, {**values, "typed": "member1"}, HTTP_ACCEPT=HTML)
    assert refused.status_code == 422
    assert not done()
    page(root, url, {**values, "reason": "disk swap", "typed": "member1"})

    assert done()
    assert ChangeLog.objects.filter(actor="root", reason__endswith=": disk swap").exists()


def test_a_fence_is_refused_while_the_cluster_answers_and_needs_the_typed_name(root: Client) -> None:
    stored(ready("member2"))
    lost_cluster()
    values = {"minutes": "10", "reason": "power is off"}

    assert "is Ready, so its copies run" in page(root, "/clusters/member2/fence?minutes=10")
    untyped = root.post("/clusters/member1/fence", values, HTTP_ACCEPT=HTML)
    assert untyped.status_code == 422
    page(root, "/clusters/member1/fence", {**values, "typed": "member1"})

    assert "power is off" in page(root, "/clusters/member1")
    page(root, "/clusters/member1/unfence", {"reason": "it is back"})
    assert "confirmed that the cluster is down" not in page(root, "/clusters/member1")


def test_a_taint_that_stays_while_the_cluster_is_not_ready_is_not_offered_and_its_removal_is_refused(
    root: Client,
) -> None:
    down = Condition("Ready", "False", last_transition_time=store().now())
    lost = with_owned(ready("member1"), (NOT_READY, ADDED), {(NOT_READY.key, NOT_READY.effect): OWNED})
    stored(lost.with_status(conditions=(down,)))
    path, of_health = "/clusters/member1/untaint", f"key={NOT_READY.key}&effect={NOT_READY.effect}"

    shown, dry_run = page(root, "/clusters/member1"), page(root, f"{path}?{of_health}")
    sent = {"key": NOT_READY.key, "effect": NOT_READY.effect, "reason": "a try", "concerned": "0"}
    refused = root.post(path, sent, HTTP_ACCEPT=HTML)

    assert re.findall(r'untaint\?key=([^&"]+)', shown) == [ADDED.key]
    for said in (dry_run, refused.content.decode()):
        assert "not-ready:NoSchedule stays, because no new copies can be placed on this cluster" in said
        assert "<h2>Confirm</h2>" not in said
    assert refused.status_code == 422
    assert live().spec.taints == (NOT_READY, ADDED)


def test_a_dry_run_over_many_workloads_names_their_number_and_leads_to_what_if(root: Client) -> None:
    stored(ready("member1"), ready("member2"))
    stored(*(binding(f"b{number}", "member1") for number in range(SMALL + 1)))

    text = page(root, "/clusters/member1/drain?rate=2")

    assert f"Concerns up to {SMALL + 1} copies on member1." in text
    assert 'href="/what-if?drained=member1&amp;rate=2"' in text
    assert "Type <code>member1</code> to confirm" in text
    assert root.get("/what-if?drained=member1&rate=2", HTTP_ACCEPT=HTML).status_code in (200, 303)


def test_a_form_that_is_wrong_says_so_at_the_field_and_shows_no_dry_run(root: Client) -> None:
    stored(ready("member1"))

    text = root.get("/clusters/member1/drain?rate=-1", HTTP_ACCEPT=HTML).content.decode()

    assert 'class="field-error"' in text
    assert "What it would do now" not in text


def test_the_expiry_of_a_token_is_read_from_a_json_web_token_and_from_nothing_else() -> None:
    expiring = "e30.eyJleHAiOiAxODAwMDAwMDAwfQ.x"  # {"exp": 1800000000}

    found = token_expiry(expiring)

    assert found is not None
    assert found.timestamp() == 1_800_000_000
    assert token_expiry("opaque") is token_expiry("a.b.c") is token_expiry("e30.e30.x") is None
    assert certificate_expiry("") is certificate_expiry("not PEM") is None


def test_a_drain_is_stopped_and_resumed_and_a_maintenance_ended_from_the_page(root: Client, clerk: Client) -> None:
    stored(ready("member1"), ready("member2"), binding("web", "member1"))
    page(root, "/clusters/member1/drain", {"rate": "1", "reason": "swap"})
    page(root, "/clusters/member1/maintenance", {"minutes": "5", "reason": "swap"})
    (drain,), (window,) = store().list(DRAIN), store().list(MAINTENANCE_WINDOW)
    stop, end = f"/orders/drains/{drain.metadata.name}", f"/orders/maintenancewindows/{window.metadata.name}/end"
    assert f"{stop}/stop" in page(root, "/clusters/member1")
    assert clerk.get(f"{stop}/stop", HTTP_ACCEPT=HTML).status_code == 403

    assert f"{stop}/resume" in page(root, f"{stop}/stop", {"reason": "wait"})
    assert live(drain.ref).spec.stop
    page(root, f"{stop}/resume", {"reason": "go on"})
    page(root, end, {"reason": "done"})

    assert not live(drain.ref).spec.stop
    assert not store().list(MAINTENANCE_WINDOW)
    assert root.get("/orders/drains/nothing/explode", HTTP_ACCEPT=HTML).status_code == 404


def test_a_page_beyond_the_last_workload_or_cluster_does_not_say_that_there_is_none(root: Client) -> None:
    stored(cluster("member1"), cluster("member2"), *(binding(name, "member1") for name in ("api", "web")))

    for url in ("/clusters/member1?after=work.karmada.io/ResourceBinding:shop/zzz", "/clusters/member1?after=zzz"):
        shown = page(root, url)
        assert "/bindings/shop/web" in shown
        assert "Nothing is placed on this cluster" not in shown
    shown = page(root, "/clusters?offset=500")
    assert "2 of 2 clusters" in shown
    assert ">member2<" in shown
    assert "Nothing is placed on this cluster" in page(root, "/clusters/member2?after=zzz")
    assert [within(*sizes, 50) for sizes in ((100, 100), (100, 101), (50, 50), (50, 0))] == [50, 100, 0, 0]


def test_unjoin_does_not_delete_copies_that_were_to_prevent_it(root: Client) -> None:
    """The annotation may be left from an earlier attempt. It decides for every deletion that does not change it."""
    stored(ready("member1"), ready("member2"), binding("web", "member1"))
    old = live()
    change(old, old.with_meta(annotations={UNJOIN_ANNOTATION: "delete"}))
    sent = {"reason": "it moves", "typed": "member1"}

    shown = page(root, "/clusters/member1/unjoin?copies=")
    refused = root.post("/clusters/member1/unjoin", {**sent, "copies": ""}, HTTP_ACCEPT=HTML)

    assert f"the cluster has the annotation {UNJOIN_ANNOTATION}=delete" in shown
    assert refused.status_code == 422
    assert not live().terminating
    page(root, "/clusters/member1/unjoin", {**sent, "copies": "keep"})
    assert not store().get([MEMBER1]) or live().metadata.annotations[UNJOIN_ANNOTATION] == "keep"


def test_of_the_orders_of_years_the_page_of_a_cluster_shows_those_that_last_and_the_newest(root: Client) -> None:
    """Drains and Failbacks are never deleted by themselves."""

    def order(kind: str, name: str, cluster: str, phase: str) -> Any:
        known = KINDS[kind]
        made = known.type(known.resource.api_version, known.resource.kind, meta(name, ""))
        return made.with_spec(cluster=cluster, rate=1.0, reason="disks").with_status(phase=phase)

    stored(ready("member1"), ready("member2"), order(DRAIN, "lasting", "member1", "Paused"))
    few = queries(root, "/clusters/member1")
    for kind in (DRAIN, FAILBACK):
        stored(*(order(kind, f"old{number:02}", "member1", "Finished") for number in range(60)))
        stored(*(order(kind, f"other{number:02}", "member2", "Finished") for number in range(60)))

    shown = page(root, "/clusters/member1")

    drains = re.findall(r"<strong>Drain (\w+)<", shown)
    assert drains == ["lasting", "old59", "old58", "old57", "old56"]
    assert re.findall(r"<strong>Failback (\w+)<", shown) == ["old59", "old58", "old57", "old56", "old55"]
    assert "56 earlier drains" in shown
    url = "/apis/failover.lifeboat.io/v1alpha1/drains?fieldSelector=spec.cluster%3Dmember1"
    assert f'href="{url}"' in shown
    assert "old00" in page(root, url)
    everything = root.get(url, HTTP_ACCEPT="application/json").json()["items"]
    assert {one["spec"]["cluster"] for one in everything} == {"member1"}
    assert len(everything) == 61
    assert queries(root, "/clusters/member1") == few

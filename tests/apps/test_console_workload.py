"""The page of a workload: its chain, its copies with their age, what each filter says, and what if a cluster died."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.test import Client
from msgspec.structs import replace

from apps.objects.models import ChangeLog
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import (
    BEFORE_FAILOVER_ANNOTATION,
    PROPAGATION_POLICY_NAME_ANNOTATION,
    PROPAGATION_POLICY_NAMESPACE_ANNOTATION,
)
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds import CLUSTER_RESOURCE_BINDING
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    ObjectReference,
    ResourceBindingSpec,
    TargetCluster,
)
from controlplane.kinds.cluster import Taint
from controlplane.kinds.rows import Observation
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER
from tests.apps.pages import found, stored
from tests.apps.statements import statements
from tests.apps.test_console_queue import HTML, text
from tests.apps.test_records import changed, evicted
from tests.builders import objects, templates
from tests.builders.objects import eviction
from tests.builders.placements import duplicated, placement
from tests.builders.templates import namespace
from tests.core.test_failback import away

PAGE = "/bindings/default/web-deployment"


def web(where: Any = None, *, on: dict[str, int] | None = None, **status: Any) -> Binding:
    """Return the binding of Deployment default/web, which the policy `everywhere` claims."""
    made = objects.binding("web", where or duplicated(least=1, most=1), on={"member1": 2} if on is None else on)
    annotations = {PROPAGATION_POLICY_NAME_ANNOTATION: "everywhere", PROPAGATION_POLICY_NAMESPACE_ANNOTATION: "default"}
    return made.with_meta(annotations=annotations).with_status(**status)


def fleet(*members: str) -> None:
    stored(namespace("default"), *(objects.cluster(name) for name in members))


def test_the_chain_leads_from_the_template_to_the_copies(root: Client) -> None:
    fleet("member1", "member2")
    made = web()
    stored(templates.deployment("web"), objects.policy("everywhere"), made, objects.work("web-1", "member1", of=made))

    shown = text(root, PAGE)

    assert "Deployment web in default: 1 of 1 copy healthy" in shown
    for part in ("Deployment default/web", "PropagationPolicy default/everywhere", "default/web-deployment", "Works 1"):
        assert part in shown
    body = root.get(PAGE, HTTP_ACCEPT=HTML).content.decode()
    assert 'href="/apis/apps/v1/namespaces/default/deployments/web"' in body
    assert 'href="/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies/everywhere"' in body
    assert "kubectl get resourcebinding -n default web-deployment -o yaml" in shown


def test_the_same_workload_has_a_page_by_its_template(root: Client) -> None:
    fleet("member1")
    stored(templates.deployment("web"), web())

    assert "1 of 1 copy healthy" in text(root, "/workloads/apps/Deployment/default/web")
    assert "1 of 1 copy healthy" in text(root, PAGE)
    text(root, "/workloads/apps/Deployment/default/none", status=404)
    text(root, "/workloads/core/Nothing/default/web", status=404)
    text(root, "/bindings/default/none", status=404)
    text(root, "/bindings/-/none", status=404)


def test_a_secret_whose_encryption_key_is_lost_has_its_page(root: Client, settings: Any) -> None:
    fleet("member1")
    resource = ObjectReference("v1", "Secret", "login", "default")
    spec = ResourceBindingSpec(resource=resource, clusters=(TargetCluster("member1", 0),))
    stored(templates.secret("login", {"password": "b2xk"}), objects.bound(spec, name="login-secret"))
    settings.ENCRYPTION_KEYS = Fernet.generate_key().decode()

    for url in ("/bindings/default/login-secret", "/workloads/core/Secret/default/login"):
        assert root.get(url).status_code == 200


def test_a_workload_without_a_policy_says_that_it_runs_nowhere(root: Client) -> None:
    fleet("member1")
    stored(templates.deployment("web"))

    shown = text(root, "/workloads/apps/Deployment/default/web")

    assert "no policy claims it" in shown
    assert "it runs on no cluster" in shown


def test_a_copy_on_a_cluster_out_of_reach_is_marked_as_last_known_with_its_age(root: Client) -> None:
    fleet("member1")
    since = store().now() - timedelta(minutes=4, seconds=10)
    lost = AggregatedStatusItem(
        "member1",
        {"readyReplicas": 2},
        applied=True,
        health="Unknown",
        last_known_health="Healthy",
        out_of_reach_since=since,
    )
    stored(templates.deployment("web"), web(aggregated_status=(lost,)))
    answered = Observation("member1", answered_at=since - timedelta(seconds=5))
    store().apply([(None, Decision(changes=(Save(answered),)))], by=Actor("test"))

    shown = text(root, PAGE)

    assert "0 of 1 copy healthy" in shown
    assert "1 known only from before an outage" in shown
    assert "last known Healthy" in shown
    assert "4 min" in shown
    assert f"{since:%Y-%m-%d %H:%M:%S}" in shown


def test_a_copy_left_behind_on_a_cluster_out_of_reach_is_marked_as_last_known(root: Client) -> None:
    fleet("member2")
    down = objects.cluster("member1", ready="False", at=store().now() - timedelta(minutes=4, seconds=10))
    made = web(on={"member2": 2})
    works = [objects.work(f"web-{name}", name, of=made) for name in ("member1", "member2")]
    stored(down, templates.deployment("web"), made, *works)

    shown = text(root, PAGE)

    assert "LeftBehind it should be gone, and its removal has not been confirmed ! last known nothing reported" in shown
    assert ", since then the cluster is out of reach" in shown
    assert "Works 2 ! 0 applied 1 known only from before an outage" in shown


def test_each_filter_says_what_it_thinks_of_each_cluster(root: Client) -> None:
    fleet("member1")
    stored(objects.cluster("member2", taints=[Taint("gpu", "NoSchedule")], apis=()), objects.cluster("member3"))
    stored(templates.deployment("web"), web(placement("member1", "member2")))

    shown = text(root, PAGE)

    assert "What each filter says now" in shown
    assert "refuses taint gpu:NoSchedule is not tolerated" in shown
    assert "refuses it does not serve Deployment of apps/v1" in shown
    assert "refuses clusterAffinity does not select it" in shown
    assert "No cluster is refused by Leaving, Terminating" in shown


def test_the_filters_refuse_a_cluster_that_the_binding_has_left_because_of_a_taint(root: Client) -> None:
    member = objects.cluster("member1", taints=[Taint("slow", "PreferNoExecute", time_added=objects.START)])
    stored(namespace("default"), member, objects.cluster("member2"))
    moved = away(placement(), was={"member1": 2}, now={"member2": 2}).metadata.annotations
    annotation = {BEFORE_FAILOVER_ANNOTATION: moved[BEFORE_FAILOVER_ANNOTATION]}
    stored(web(placement(), on={"member2": 2}).with_meta(annotations=annotation))

    shown = text(root, PAGE)

    assert "refuses the binding was evicted from it because of a taint, and it still has a taint that evicts" in shown


def test_each_cluster_says_what_would_happen_if_it_died(root: Client) -> None:
    fleet("member1", "member2")
    stored(templates.deployment("web"), web())

    shown = text(root, PAGE)

    assert "would not move" in shown
    assert "GateOff" in shown
    assert "a replacement for each lost copy: member2" in shown
    assert "NotDetected" in shown


def test_what_waits_in_the_queue_and_what_is_on_record_is_linked(root: Client) -> None:
    fleet("member1", "member2")
    made = stored(templates.deployment("web"), web())[1]
    row = eviction(made)
    store().apply([(None, Decision(changes=(Save(row),)))], by=Actor("test"))
    evicted(made.ref)

    body = root.get(PAGE, HTTP_ACCEPT=HTML).content.decode()

    assert "/queue/order?verb=Hold&amp;item=default/web-deployment.member1" in body
    assert "/records/web-deployment." in body


def test_a_reader_sees_no_works_and_no_workload_that_the_reader_may_not_read(clerk: Client) -> None:
    fleet("member1")
    made = web()
    stored(templates.deployment("web"), made, objects.work("web-1", "member1", of=made))

    assert "Works 1" not in text(clerk, PAGE)
    assert clerk.get("/workloads/core/Secret/default/web", HTTP_ACCEPT=HTML).status_code == 403


def test_a_cluster_scoped_workload_has_its_page_under_a_dash(root: Client) -> None:
    fleet("member1")
    made = web()
    resource = replace(made.spec.resource, namespace="", kind="ClusterRole", api_version="rbac.authorization.k8s.io/v1")
    scoped = replace(
        made, kind="ClusterResourceBinding", metadata=replace(made.metadata, namespace="", name="web-clusterrole")
    )
    stored(scoped.with_spec(resource=resource))

    assert "ClusterRole web: " in text(root, "/bindings/-/web-clusterrole")
    assert store().get([Ref(CLUSTER_RESOURCE_BINDING, "", "web-clusterrole")])


@pytest.mark.parametrize("path", [PAGE, "/workloads/apps/Deployment/default/web"])
def test_a_page_costs_the_same_in_a_small_and_in_a_large_fleet(root: Client, path: str) -> None:
    fleet("member1", "member2")
    stored(templates.deployment("web"), objects.policy("everywhere"), web(on={"member1": 2}))
    text(root, path)
    with statements() as small:
        text(root, path)
    stored(*(objects.cluster(f"more{number:02}") for number in range(20)))
    stored(*(objects.binding(f"other{number:02}", duplicated(), on={"member1": 1}) for number in range(20)))

    with statements() as large:
        shown = text(root, path)

    assert "more19" in shown
    assert len(large) == len(small)


def test_a_message_of_a_member_is_no_html_on_the_page(root: Client) -> None:
    fleet("member1")
    harm = '<img src=x onerror="alert(1)">'
    refused = AggregatedStatusItem("member1", applied=False, applied_message=harm, health="Unhealthy")
    stored(templates.deployment("web"), web(aggregated_status=(refused,)))

    body = root.get(PAGE, HTTP_ACCEPT=HTML).content.decode()

    assert harm not in body
    assert "&lt;img src=x" in body


def test_what_the_change_log_has_forgotten_is_as_old_as_its_creation(root: Client) -> None:
    fleet("member1")
    stored(templates.deployment("web"), web())
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM objects_changelog")

    shown = text(root, PAGE)

    assert "created" in shown
    assert "written" not in shown.partition("Copies")[0]


def test_the_last_failover_is_taken_back_after_its_dry_run(root: Client) -> None:
    fleet("member1", "member2")
    made = web()
    stored(templates.deployment("web"), made)
    refused = root.get(f"{PAGE}/revert", HTTP_ACCEPT=HTML).content.decode()
    assert "no failover of it is on record" in refused
    assert f'<a class="button" href="{PAGE}">Back</a>' in refused
    assert "Take back" not in text(root, PAGE)
    evicted(made.ref)
    assert "Take back the last failover" in text(root, PAGE)
    changed(found(made.ref), found(made.ref).with_spec(clusters=(TargetCluster("member2", 2),)))

    shown = text(root, f"{PAGE}/revert")
    assert "Moves 1, default/web-deployment from member2 (2) to member1 (2)" in shown
    assert "kubectl lifeboat revert web-deployment -n default" in shown
    answer = root.post(f"{PAGE}/revert", {"reason": "a false alarm", "concerned": "1"}, HTTP_ACCEPT=HTML)

    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    assert [target.name for target in found(made.ref).spec.clusters] == ["member1"]
    assert ChangeLog.objects.filter(actor="root", reason="Revert: a false alarm").exists()


def test_the_clusters_are_chosen_again_once_after_a_dry_run(root: Client) -> None:
    fleet("member1", "member2")
    stored(templates.deployment("web"), web())

    assert f'href="{PAGE}/rebalance"' in root.get(PAGE, HTTP_ACCEPT=HTML).content.decode()
    shown = text(root, f"{PAGE}/rebalance")
    assert "nothing has happened yet Moves nothing. Confirm" in shown
    assert '"workloads":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","namespace":"default"}]' in shown
    answer = root.post(f"{PAGE}/rebalance", {"reason": "a new cluster", "concerned": "1"}, HTTP_ACCEPT=HTML)

    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    (made,) = store().list(WORKLOAD_REBALANCER)
    assert [(one.kind, one.namespace, one.name) for one in made.spec.workloads] == [("Deployment", "default", "web")]
    assert made.spec.ttl_seconds_after_finished == 3600
    assert ChangeLog.objects.filter(actor="root", reason="Rebalance: a new cluster").exists()
    text(root, "/bindings/default/none/rebalance", status=404)

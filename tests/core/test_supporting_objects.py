"""What an object without pods is there for, and that it stays on its old cluster as long as that does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.eviction import supporting_objects
from controlplane.eviction.graceful import STUCK, WAITING_SOURCE, WAITING_WORKLOAD, ClusterState, assess_tasks
from controlplane.eviction.supporting_objects import DependentsQuery
from controlplane.kind import KINDS
from controlplane.kinds import COMPANIONS
from controlplane.kinds.binding import TAINT_UNTOLERATED, AggregatedStatusItem, Binding, GracefulEvictionTask
from controlplane.kinds.cluster import APIEnablement, APIResource, Cluster
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, Toleration
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.objects import START, binding, cluster, no_execute
from tests.builders.placements import duplicated
from tests.builders.templates import template
from tests.core.eviction_fleet import FAST
from tests.core.fleet_story import Story

POD: dict[str, Any] = {
    "serviceAccountName": "runner",
    "containers": [{"name": "main", "image": "x", "envFrom": [{"configMapRef": {"name": "settings"}}]}],
    "volumes": [
        {"name": "a", "secret": {"secretName": "keys"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
    ],
}


def deployment(name: str = "web", *, namespace: str = "default", **labels: str) -> Template:
    pods = {"metadata": {"labels": labels or {"app": name}}, "spec": POD}
    spec = {"replicas": 2, "template": pods}
    return template("Deployment", name, version="apps/v1", namespace=namespace, spec=spec)


def ingress(name: str = "web") -> Template:
    path = {"path": "/", "backend": {"service": {"name": "front"}}}
    spec = {
        "defaultBackend": {"service": {"name": "web"}},
        "rules": [{"http": {"paths": [path]}}],
        "tls": [{"secretName": "certificate"}],
    }
    return template("Ingress", name, version="networking.k8s.io/v1", spec=spec)


def scaler(version: str, kind: str) -> Template:
    target = {"apiVersion": version, "kind": kind, "name": "web"}
    return template("HorizontalPodAutoscaler", "web", version="autoscaling/v2", spec={"scaleTargetRef": target})


def service(**selector: str) -> Template:
    return template("Service", "web", spec={"selector": selector} if selector else {})


def isolation(selector: dict[str, Any]) -> Template:
    return template("NetworkPolicy", "deny", version="networking.k8s.io/v1", spec={"podSelector": selector})


WEB, OTHER = deployment("web", app="web", tier="front"), deployment("other", app="other", tier="front")
CRON = template(
    "CronJob",
    "nightly",
    version="batch/v1",
    spec={"jobTemplate": {"spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": POD}}}},
)
BARE = template("Pod", "bare", spec=POD).with_meta(labels={"app": "other"})
RUNNING = (WEB, OTHER, CRON, BARE, deployment("far", namespace="elsewhere", app="web"), ingress("door"))
ALL = ["bare", "nightly", "other", "web"]
CUSTOM = template("Service", "web", version="serving.knative.dev/v1", spec={"selector": {"app": "web"}})
BUDGET = template("PodDisruptionBudget", "web", version="policy/v1", spec={"selector": {"matchLabels": {"app": "web"}}})
LABELLED = {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}
BESIDE = [
    ("a Service: pods its selector takes", service(app="web"), ["nightly", "web"]),
    ("a Service: all labels of its selector", service(app="web", tier="front"), ["web"]),
    ("a Service: nothing fits", service(app="web", tier="back"), []),
    ("a Service without selector", service(), []),
    ("another kind called Service", CUSTOM, []),
    ("a NetworkPolicy by expression", isolation(LABELLED), ["other", "web"]),
    ("a NetworkPolicy for all pods", isolation({}), ALL),
    ("a NetworkPolicy that is none", isolation({"matchLabels": 7}), []),
    ("a PodDisruptionBudget", BUDGET, ["nightly", "web"]),
    ("a ConfigMap", template("ConfigMap", "settings"), ALL),
    ("a ConfigMap without a reference", template("ConfigMap", "unused"), []),
    ("a Secret", template("Secret", "keys"), ALL),
    ("a Secret of an Ingress", template("Secret", "certificate"), ["door"]),
    ("a ServiceAccount", template("ServiceAccount", "runner"), ALL),
    ("a claim", template("PersistentVolumeClaim", "data"), ALL),
    ("an Ingress: the Services it leads to", ingress(), ["front", "web"]),
    ("a scaler: what it scales", scaler("apps/v1", "Deployment"), ["web"]),
    ("a scaler that names itself", scaler("autoscaling/v2", "HorizontalPodAutoscaler"), []),
]


BOATS = template(
    "CustomResourceDefinition",
    "boats.example.io",
    version="apiextensions.k8s.io/v1",
    namespace="",
    spec={"group": "example.io", "names": {"kind": "Boat"}},
)
BACKENDS = [{"http": {"paths": [{"backend": {"service": {"name": name}}} for name in ("front", "", 7, None)]}}]


@pytest.mark.parametrize(("case", "one", "names"), BESIDE, ids=[row[0] for row in BESIDE])
def test_what_an_object_without_pods_is_there_for(case: str, one: Template, names: list[str]) -> None:
    asked = supporting_objects.dependents_query(one)
    indexed = [other for other in RUNNING if asked.value in KINDS[other.ref.kind].index_values(other, "companions")]

    assert sorted(ref.name for ref in supporting_objects.select_dependents(asked, indexed)) == names


@pytest.mark.parametrize(
    ("one", "query"),
    [
        (WEB, DependentsQuery()),  # its kind waits for nothing
        (BOATS, DependentsQuery(kind="example.io/Boat")),
        (
            template("Ingress", "odd", version="networking.k8s.io/v1", spec={"rules": BACKENDS}),
            DependentsQuery((Ref("Service", "default", "front"),)),
        ),
    ],
)
def test_an_object_is_asked_about_as_its_kind_needs_it(one: Template, query: DependentsQuery) -> None:
    assert supporting_objects.dependents_query(one) == query


def test_only_a_copy_that_leaves_gracefully_and_whose_kind_has_dependents_may_wait() -> None:
    def of(one: Template, *modes: str) -> bool:
        tasks = tuple(GracefulEvictionTask(f"member{n}", mode) for n, mode in enumerate(modes))
        made = binding("web", duplicated(), on={"member9": 1})
        named = replace(made.spec.resource, api_version=one.api_version, kind=one.kind)
        return supporting_objects.may_wait_for_dependents(made.with_spec(resource=named, graceful_eviction_tasks=tasks))

    assert of(service(), GRACEFULLY)
    assert of(service(), DIRECTLY, GRACEFULLY)
    assert not of(service(), DIRECTLY)
    assert not of(service())
    assert not of(WEB, GRACEFULLY)


def test_dependents_without_a_binding_keep_nothing_and_hide_none() -> None:
    there = binding("web", duplicated(), on={"member2": 1, "member1": 1})
    going = there.with_meta(name="going-deployment", deletion_timestamp=START)
    refs = [Ref("apps/Deployment", "default", name) for name in ("gone", "going", "web")]

    found = supporting_objects.dependents_by_cluster(refs, {one.ref: one for one in (there, going)})

    assert found == {"member1": ("Deployment web",), "member2": ("Deployment web",)}


def test_no_two_wait_for_each_other() -> None:
    """Of the kinds that wait only two are waited for, and neither waits for what waits for it."""
    by_name = {companion.kind for _, one, _ in BESIDE for companion in supporting_objects.dependents_query(one).named}
    by_index = set(COMPANIONS)
    secrets = supporting_objects.dependents_query(template("Secret", "certificate"))

    assert (by_name | by_index) & supporting_objects.KINDS == {"Service", "networking.k8s.io/Ingress"}
    assert supporting_objects.dependents_query(service(app="web")).named == secrets.named == ()
    assert not any("?" in value for value in KINDS["networking.k8s.io/Ingress"].index_values(ingress(), "companions"))


UP = ClusterState(ready=True, evicting=False)
PLACES = {"member1": replace(UP, evicting=True), "member2": UP}
BESIDE_IT = {"member1": ("Deployment web",)}
LATER, LATE = START + timedelta(seconds=10), START + timedelta(seconds=601)
PURGE = Settings(on_graceful_timeout="Purge")


def leaving(*, on: str = "member2", healthy: bool = True, **task: Any) -> Binding:
    fields = {"reason": TAINT_UNTOLERATED, "creation_timestamp": START} | task
    one = binding("web", duplicated(), on={on: 0} if on else {}, replicas=0)
    one = one.with_spec(graceful_eviction_tasks=(GracefulEvictionTask("member1", **fields),))
    item = AggregatedStatusItem(on, applied=True, health="Healthy" if healthy else "Unknown")
    return one.with_status(aggregated_status=(item,), scheduler_observed_generation=one.metadata.generation)


DOWN = {**PLACES, "member1": ClusterState(ready=False, evicting=True)}
STAYS = [
    # what, where things are, settings, when; does it stay past its time as, or wait in time as
    ("while its pods are there", leaving(), PLACES, Settings(), LATER, "", WAITING_WORKLOAD),
    ("past its time as well", leaving(), PLACES, Settings(), LATE, WAITING_WORKLOAD, ""),
    ("what ails itself is reported as that", leaving(healthy=False), PLACES, Settings(), LATE, STUCK, ""),
    ("in time what ails itself is no news", leaving(healthy=False), PLACES, Settings(), LATER, "", ""),
    ("where the source is down", leaving(), DOWN, Settings(), LATE, WAITING_SOURCE, ""),
    ("with Purge in time", leaving(), PLACES, PURGE, LATER, "", WAITING_WORKLOAD),
    ("with gracePeriodSeconds in time", leaving(grace_period_seconds=30), PLACES, PURGE, LATER, "", WAITING_WORKLOAD),
]


@pytest.mark.parametrize(("case", "one", "places", "settings", "at", "overdue", "waiting"), STAYS)
def test_an_object_without_pods_stays(
    case: str, one: Binding, places: Any, settings: Settings, at: Any, overdue: str, waiting: str
) -> None:
    found = assess_tasks(one, settings, clusters=places, dependents=BESIDE_IT, now=at)

    assert found.cleared == ()
    assert [wait.state for wait in found.overdue] == ([overdue] if overdue else [])
    assert [wait.state for wait in found.waiting] == ([waiting] if waiting else [])
    assert all(
        "Deployment web no longer runs on the cluster" in wait.waits_for for wait in (*found.overdue, *found.waiting)
    )
    assert found.wake_at is not None


GOES = [
    ("when they have left", leaving(), PLACES, Settings(), LATER, {"member2": ("Deployment web",)}),
    ("past its time with Purge", leaving(), PLACES, PURGE, LATE, BESIDE_IT),
    ("past its own time", leaving(grace_period_seconds=5), PLACES, Settings(), LATER, BESIDE_IT),
    ("when a user asks for it", leaving(suppress_deletion=False), PLACES, Settings(), LATER, BESIDE_IT),
    ("when it is wanted back", leaving(on="member1"), PLACES, Settings(), LATER, BESIDE_IT),
    ("when the cluster is gone", leaving(), {"member2": UP}, Settings(), LATER, BESIDE_IT),
]


@pytest.mark.parametrize(("case", "one", "places", "settings", "at", "beside"), GOES)
def test_no_wait_for_companions_outlasts_other_waits(
    case: str, one: Binding, places: Any, settings: Settings, at: Any, beside: Any
) -> None:
    found = assess_tasks(one, settings, clusters=places, dependents=beside, now=at)

    assert [gone.task.from_cluster for gone in found.cleared] == ["member1"]


@pytest.mark.parametrize(("waited", "look"), [(10.0, 5.0), (100, 10), (300, 30), (10_000, 60)])
def test_looks_for_companions_become_rarer_and_never_end(waited: float, look: float) -> None:
    now = START + timedelta(seconds=waited)

    assert assess_tasks(
        leaving(), Settings(), clusters=PLACES, dependents=BESIDE_IT, now=now
    ).wake_at == now + timedelta(seconds=look)


# With the controllers


def of(one: Template, name: str, *, on: str) -> Binding:
    """Return the binding of an object without pods; it is healthy wherever it is."""
    made = binding(name, duplicated("member1", "member2", least=1, most=1), on={on: 0}, replicas=0)
    resource = replace(made.spec.resource, api_version=one.api_version, kind=one.kind, name=one.metadata.name)
    made = replace(made, spec=replace(made.spec, resource=resource, replica_requirements=None))
    return made.with_meta(name=f"{one.metadata.name}-{one.kind}".lower())


def story() -> Story:
    """A Deployment and its Service on member1, both of which have somewhere to go."""
    web, front = deployment(), service(app="web")
    return Story(
        *(serving(f"member{n}") for n in (1, 2)),
        web,
        front,
        binding("web", duplicated("member1", "member2", least=1, most=1), on={"member1": 2}),
        of(front, "front", on="member1"),
        settings=FAST,
    )


def serving(name: str) -> Cluster:
    """Return a cluster that knows Services too."""
    one = cluster(name)
    services = APIEnablement("v1", (APIResource("services", "Service"),))
    return one.with_status(api_enablements=(*one.status.api_enablements, services))


def at(fleet: Story, name: str) -> Binding:
    ref = Ref("work.karmada.io/ResourceBinding", "default", name)
    one: Binding = fleet.store.get([ref])[ref]
    return one


def report(fleet: Story, name: str, health: str) -> None:
    old = at(fleet, name)
    items = tuple(replace(item, health=health) for item in old.status.aggregated_status)
    fleet.store.put(old.with_status(aggregated_status=items), old)
    fleet.work()


def stuck(fleet: Story) -> Condition | None:
    return condition(at(fleet, "web-service").status.conditions, "EvictionStuck")


def test_a_service_stays_until_the_pods_behind_it_have_left() -> None:
    fleet = story()
    fleet.members.healthy = False
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(1)
    report(fleet, "web-service", "Healthy")
    fleet.pass_seconds(60)

    said = stuck(fleet)
    assert [one.from_cluster for one in at(fleet, "web-service").spec.graceful_eviction_tasks] == ["member1"]
    assert said is not None
    assert (said.status, said.reason) == ("False", WAITING_WORKLOAD)
    assert "Deployment web" in said.message

    report(fleet, "web-deployment", "Healthy")
    fleet.pass_seconds(6)

    assert fleet.leaving("web") == []
    assert at(fleet, "web-service").spec.graceful_eviction_tasks == ()
    said = stuck(fleet)
    assert said is not None
    assert said.reason == "NotStuck"


def test_a_service_that_waits_past_its_time_says_so_once() -> None:
    fleet = story()
    fleet.members.healthy = False
    fleet.taint("member1", no_execute())
    fleet.pass_seconds(1)
    report(fleet, "web-service", "Healthy")
    fleet.pass_seconds(700)

    said = stuck(fleet)
    assert said is not None
    assert (said.status, said.reason) == ("True", WAITING_WORKLOAD)
    assert len(fleet.events("EvictionWaitingForWorkload")) == 1


def test_a_service_stays_where_its_pods_are_not_leaving_at_all() -> None:
    fleet = story()
    bears = replace(
        duplicated("member1", "member2", least=1, most=1), cluster_tolerations=(Toleration(operator="Exists"),)
    )
    old = at(fleet, "web-deployment")
    fleet.store.put(old.with_spec(placement=bears), old)
    fleet.work()

    fleet.taint("member1", no_execute())
    fleet.pass_seconds(30)

    assert fleet.placed("web") == {"member1": 2}
    assert [one.name for one in at(fleet, "web-service").spec.clusters] == ["member2"]
    assert [one.from_cluster for one in at(fleet, "web-service").spec.graceful_eviction_tasks] == ["member1"]

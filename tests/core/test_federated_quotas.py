"""Quotas of namespaces over all clusters: what is counted, what is refused, and what members get [federated-quotas]."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.admission import quota_checks
from controlplane.apimachinery.errors import Forbidden
from controlplane.apimachinery.meta import ObjectMeta, condition
from controlplane.controllers.federated_quotas import FederatedQuotas
from controlplane.controllers.policies import Policies
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine import run
from controlplane.estimate.quota import DENIED, changes, excess, overall_used, use_of
from controlplane.kinds.binding import SCHEDULED, Binding, Component, ReplicaRequirements, TargetCluster
from controlplane.kinds.federated_quota import (
    FederatedResourceQuota,
    FederatedResourceQuotaSpec,
    StaticClusterAssignment,
    counted_as,
)
from controlplane.kinds.policy import Placement
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, policy
from tests.builders.templates import deployment
from tests.core.desk import Desk, pending
from tests.core.propagation_story import MEMBERS, Story

ON = Settings(feature_gates={**GATES, "FederatedQuotaEnforcement": True})
EVERYWHERE = Placement()


def quota(
    name: str = "team", *, parts: dict[str, dict[str, str]] | None = None, **overall: str
) -> FederatedResourceQuota:
    return FederatedResourceQuota(
        "policy.karmada.io/v1alpha1",
        "FederatedResourceQuota",
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", generation=1, creation_timestamp=START),
        FederatedResourceQuotaSpec(
            overall, tuple(StaticClusterAssignment(cluster, hard) for cluster, hard in (parts or {}).items())
        ),
    )


def asking(template: Any, cpu: str) -> Any:
    """Return a Deployment whose replicas request so much cpu."""
    pod = template.spec["template"]["spec"]
    containers = [{**pod["containers"][0], "resources": {"requests": {"cpu": cpu}}}]
    spec = {**template.spec, "template": {**template.spec["template"], "spec": {**pod, "containers": containers}}}
    return template.with_content({**template.content, "spec": spec})


class QuotaDesk(Desk):
    """A desk with the controller of quotas beside the scheduler."""

    def __init__(self, *objects: Any, settings: Settings = ON) -> None:
        super().__init__(settings=settings)
        self.controllers = [*self.controllers, FederatedQuotas()]
        self.store = type(self.store)(controllers=self.controllers, clock=lambda: self.now)
        self.store.create(*objects)
        self.settle()

    def quota(self, name: str = "team") -> FederatedResourceQuota:
        found: FederatedResourceQuota = self.store.objects[quota(name).ref]  # type: ignore[assignment]
        return found

    def used(self, name: str = "team") -> dict[str, str]:
        return self.quota(name).status.overall_used

    def messages(self, reason: str) -> set[str]:
        return {event.message for event in self.store.list("Event") if event.reason == reason}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("resource", "counted"),
    [
        ("cpu", "cpu"),
        ("requests.cpu", "cpu"),
        ("requests.nvidia.com/gpu", "nvidia.com/gpu"),
        ("limits.cpu", None),
        ("pods", None),
        ("count/deployments.apps", None),
        ("requests.storage", None),
        ("fast.storageclass.storage.k8s.io/requests.storage", None),
    ],
)
def test_a_quota_counts_what_workloads_request(resource: str, counted: str | None) -> None:
    assert counted_as(resource) == counted


def test_the_replicas_of_all_clusters_count_and_copies_that_are_evicted_do_not() -> None:
    placed = binding("web", EVERYWHERE, on={"a": 2, "b": 3}, replicas=5, cpu="500m")

    assert use_of(placed) == {"cpu": 2500}
    assert changes(placed, placed.with_spec(clusters=(TargetCluster("b", 3),))) == {"cpu": -1000}
    assert changes(placed, placed.with_spec(clusters=(TargetCluster("b", 2), TargetCluster("c", 3)))) == {}
    assert changes(None, placed) == {"cpu": 2500}
    assert changes(placed, placed.with_status(scheduler_observed_generation=9)) == {}


def test_a_deleted_workload_gives_back_what_it_used() -> None:
    placed = binding("web", EVERYWHERE, on={"a": 2}, replicas=2, cpu="1")

    assert changes(placed, None) == {"cpu": -2000}


@pytest.mark.parametrize(
    "unused",
    [
        binding("web", EVERYWHERE, replicas=2, cpu="1"),
        binding("web", EVERYWHERE, on={"a": 0}, replicas=0, cpu="1"),
        binding("web", EVERYWHERE, on={"a": 2}, replicas=2, cpu="1").with_meta(namespace=""),
        binding("web", EVERYWHERE, on={"a": 2}, replicas=2, cpu="one"),
    ],
    ids=["not placed", "scaled to zero", "of no namespace", "an amount that is no quantity"],
)
def test_a_workload_that_requests_nothing_uses_nothing(unused: Binding) -> None:
    assert use_of(unused) == {}


def test_all_components_of_a_workload_count_on_each_of_its_clusters() -> None:
    parts = (
        Component("jobmanager", 1, ReplicaRequirements(resource_request={"cpu": "1", "memory": "1Gi"})),
        Component("taskmanager", 3, ReplicaRequirements(resource_request={"cpu": "2"})),
    )
    placed = binding("flink", EVERYWHERE, on={"a": 0}, replicas=0).with_spec(components=parts)

    assert use_of(placed) == {"cpu": 7000, "memory": 1 << 30}
    twice = placed.with_spec(clusters=(TargetCluster("a"), TargetCluster("b")))
    assert changes(placed, twice) == {"cpu": 7000, "memory": 1 << 30}
    assert changes(twice, placed) == {"cpu": -7000, "memory": -(1 << 30)}
    assert changes(placed, placed.with_spec(components=parts[1:])) == {"cpu": -1000, "memory": -(1 << 30)}
    assert changes(placed, placed.with_spec(components=(*parts, parts[1]))) == {"cpu": 6000}


def test_an_excess_is_worded_as_in_kubernetes_and_shrinking_is_never_refused() -> None:
    tight = quota(cpu="2", memory="1Gi")

    found = excess([tight], {"cpu": 1500}, {"cpu": 1000, "memory": 1 << 20})

    assert str(found) == "exceeded quota: team, requested: cpu=1, used: cpu=1500m, limited: cpu=2"
    assert excess([tight], {"cpu": 1500}, {"cpu": 500}) is None
    assert excess([tight], {"cpu": 9000}, {"cpu": -1000, "memory": 1}) is None
    assert str(excess([quota(**{"requests.cpu": "2"})], {"cpu": 1500}, {"cpu": 501})).startswith("exceeded quota: team")
    assert excess([quota(pods="0")], {}, {"cpu": 1}) is None
    gone = quota("gone", cpu="0").with_meta(deletion_timestamp=START)
    assert excess([gone], {}, {"cpu": 1}) is None
    assert str(excess([gone, tight], {"cpu": 1500}, {"cpu": 1000})).startswith("exceeded quota: team")


def test_a_quota_shows_what_is_used_of_it_in_the_format_of_its_limit() -> None:
    shown = overall_used(quota(cpu="2", memory="1Gi", pods="9"), {"cpu": 1500, "memory": 0, "nvidia.com/gpu": 1})

    assert shown == {"cpu": "1500m"}


def test_the_last_room_of_a_quota_goes_to_one_of_two_bindings_and_the_other_waits_until_there_is_room() -> None:
    desk = QuotaDesk(
        cluster("a"), quota(cpu="3"), pending("one", EVERYWHERE, replicas=2), pending("two", EVERYWHERE, replicas=2)
    )

    assert (desk.places("one"), desk.places("two")) == ({"a": 2}, {})
    assert desk.said("two") == ("False", "QuotaExceeded")
    assert desk.used() == {"cpu": "2"}
    reported = condition(desk.binding("two").status.conditions, SCHEDULED)
    assert reported is not None
    assert reported.message.startswith(f"{DENIED}exceeded quota: team, requested: cpu=2, used: cpu=2, limited: cpu=3")
    assert {message.startswith(DENIED) for message in desk.messages("ScheduleBindingFailed")} == {True}

    desk.change(replace(desk.quota(), spec=quota(cpu="4").spec).with_meta(generation=2))  # at once, not in 5 minutes

    assert desk.places("two") == {"a": 2}
    assert desk.used() == {"cpu": "4"}


def test_a_binding_keeps_its_placement_when_a_quota_has_no_room_for_more_replicas() -> None:
    desk = QuotaDesk(cluster("a"), quota(cpu="3"), pending("web", EVERYWHERE, replicas=2))

    desk.change(desk.binding("web").with_spec(replicas=4))
    assert desk.places("web") == {"a": 2}
    assert desk.said("web") == ("False", "QuotaExceeded")

    desk.change(desk.binding("web").with_spec(replicas=3))
    assert desk.places("web") == {"a": 3}
    assert desk.said("web") == ("True", "Success")


def test_the_capacity_of_a_refused_binding_is_free_for_the_next_one() -> None:
    other = pending("other", Placement()).with_meta(namespace="free")
    desk = QuotaDesk(cluster("a", room=1), quota(cpu="0"), pending("web", Placement()), other)

    assert desk.places("web") == {}
    found: Any = desk.store.objects[other.ref]
    assert [target.name for target in found.spec.clusters] == ["a"]


def test_a_quota_limits_nothing_while_the_gate_is_off_or_in_another_namespace() -> None:
    web = pending("web", EVERYWHERE, replicas=9)

    assert QuotaDesk(cluster("a"), quota(cpu="1"), web, settings=Settings()).places("web") == {"a": 9}
    assert QuotaDesk(cluster("a"), quota(cpu="1").with_meta(namespace="x"), web).places("web") == {"a": 9}


class QuotaStory(Story):
    """A story with the controller of quotas."""

    def __init__(self, *objects: Any, settings: Settings = ON) -> None:
        super().__init__(settings=settings)
        self.controllers = (*self.controllers, FederatedQuotas())  # type: ignore[assignment]
        self.store = type(self.store)(controllers=self.controllers, clock=lambda: self.now)
        run.mark_due_at_start(self.controllers, self.store)
        self.add(*objects)

    def quota(self) -> FederatedResourceQuota:
        found: FederatedResourceQuota = self.store.objects[quota().ref]  # type: ignore[assignment]
        return found

    def change(self, **fields: Any) -> None:
        old = self.quota()
        self.edit(replace(old, spec=replace(old.spec, **fields)).with_meta(generation=old.metadata.generation + 1))


def test_each_assignment_becomes_a_quota_of_its_cluster_that_follows_it() -> None:
    story = QuotaStory(*MEMBERS, quota(cpu="10", parts={"member1": {"cpu": "4"}, "member2": {"cpu": "6"}}))
    works = story.works()
    assert {name: work.manifest["spec"] for name, work in works.items()} == {
        "member1": {"hard": {"cpu": "4"}},
        "member2": {"hard": {"cpu": "6"}},
    }
    made = works["member1"].manifest
    assert (made["kind"], made["metadata"]["name"], made["metadata"]["namespace"]) == (
        "ResourceQuota",
        "team",
        "default",
    )

    story.change(static_assignments=(StaticClusterAssignment("member1", {"cpu": "5"}),))
    story.remove_from_member("member2")
    assert {name: work.manifest["spec"]["hard"] for name, work in story.works().items()} == {"member1": {"cpu": "5"}}

    story.delete(story.quota())
    story.remove_from_member("member1")
    assert story.works() == {}
    assert story.again() == 0


def test_a_cluster_gets_its_part_when_it_joins_and_a_cluster_without_a_part_gets_nothing() -> None:
    story = QuotaStory(quota(cpu="10", parts={"member3": {"cpu": "4"}}))
    assert story.works() == {}

    story.add(*MEMBERS)
    assert set(story.works()) == {"member3"}


def test_what_members_report_is_summed_while_quotas_are_not_enforced() -> None:
    parts = {"member1": {"cpu": "4"}, "member2": {"cpu": "6"}}
    story = QuotaStory(*MEMBERS, quota(cpu="10", parts=parts), settings=Settings())
    for name, used in (("member1", "1500m"), ("member2", "2")):
        story.report(name, hard={"cpu": parts[name]["cpu"]}, used={"cpu": used})  # type: ignore[arg-type]

    status = story.quota().status
    assert (status.overall, status.overall_used) == ({"cpu": "10"}, {"cpu": "3500m"})
    assert [(item.cluster_name, item.hard, item.used) for item in status.aggregated_status] == [
        ("member1", {"cpu": "4"}, {"cpu": "1500m"}),
        ("member2", {"cpu": "6"}, {"cpu": "2"}),
    ]
    assert story.again() == 0


def test_requests_that_a_quota_has_no_room_for_do_not_reach_the_binding() -> None:
    web = deployment(replicas=2)
    story = QuotaStory(*MEMBERS, quota(cpu="3"), policy("all"), web)
    story.place(web, member1=2)

    story.edit(asking(story.template(web), "2"))

    kept = story.binding(web)
    assert kept is not None
    assert kept.spec.replica_requirements is not None
    assert kept.spec.replica_requirements.resource_request == {"cpu": "1"}
    (message,) = story.events("ApplyPolicyFailed")
    assert message.startswith(f"{DENIED}exceeded quota: team, requested: cpu=2, used: cpu=2, limited: cpu=3")

    story.change(overall={"cpu": "4"})
    story.later(seconds=31)
    raised = story.binding(web)
    assert raised is not None
    assert raised.spec.replica_requirements is not None
    assert raised.spec.replica_requirements.resource_request == {"cpu": "2"}


def test_of_two_templates_in_a_batch_that_ask_for_more_the_second_is_refused() -> None:
    one, two = deployment("one", replicas=1), deployment("two", replicas=1)
    story = QuotaStory(*MEMBERS, quota(cpu="3"), policy("all"), one, two)
    for each in (one, two):
        story.place(each, member1=1)

    for each in (one, two):
        new = asking(story.template(each), "2")
        story.store.put(new, story.store.objects[new.ref])
    story.settle()

    asked = [story.binding(each) for each in (one, two)]
    requests = [found.spec.replica_requirements.resource_request["cpu"] for found in asked if found]  # type: ignore[union-attr]
    assert sorted(requests) == ["1", "2"]


def test_a_write_by_hand_beyond_the_quota_is_refused_with_403() -> None:
    desk = QuotaDesk(cluster("a"), quota(cpu="3"), pending("web", EVERYWHERE, replicas=2))
    old = desk.binding("web")
    more = old.with_spec(clusters=(TargetCluster("a", 4),))

    with pytest.raises(Forbidden) as refused:
        quota_checks.check_binding(desk.store, more, old, ON)

    assert refused.value.message == (
        f'resourcebindings.work.karmada.io "{old.metadata.name}" is forbidden: exceeded quota: team, requested: cpu=2, '
        "used: cpu=2, limited: cpu=3"
    )
    quota_checks.check_binding(desk.store, more, old, Settings())
    quota_checks.check_binding(desk.store, old.with_spec(clusters=()), old, ON)


def test_no_controller_reads_quotas_one_by_one() -> None:
    """Loading is counted in tests/apps/batches; here: without quotas the use is not read at all."""
    desk = QuotaDesk(cluster("a"), pending("web", EVERYWHERE))
    read: list[Any] = []
    desk.store.quota_use = lambda namespaces: read.append(namespaces) or {}  # type: ignore[method-assign,func-returns-value]

    for controller in (Scheduler(), Policies()):
        controller.load(desk.store, [desk.binding("web").ref])

    assert read == []

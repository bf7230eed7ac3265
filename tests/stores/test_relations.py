"""Relations for reading: what Django follows from an object to its rows and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import FieldError
from django.db.models import prefetch_related_objects
from msgspec.structs import replace

from apps.clusters.models import Cluster, Taint
from apps.failover.models import Eviction
from apps.objects.read_only import WriteRefused
from apps.objects.store import store
from apps.resources.models import Binding, TargetCluster
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.binding import Binding as BindingObject
from controlplane.kinds.binding import GracefulEvictionTask
from tests.apps.pages import stored
from tests.builders.bare import binding, cluster
from tests.builders.objects import eviction, work

pytestmark = pytest.mark.django_db(transaction=True)


def leaving(name: str, source: str, target: str) -> BindingObject:
    """Return a binding that was moved from one cluster to another."""
    moved = binding(name, target)
    return replace(moved, spec=replace(moved.spec, graceful_eviction_tasks=(GracefulEvictionTask(source),)))


def row(name: str) -> Binding:
    """Return the row of a binding."""
    found: Binding = Binding.objects.get(name=name)
    return found


def test_a_binding_leads_to_its_targets_tasks_works_and_evictions_and_to_no_other() -> None:
    web, *_ = stored(leaving("web", "member1", "member2"), binding("other", "member1"), cluster("member1", "NoExecute"))
    stored(work("web", "member2", of=web))
    store().apply([(None, Decision(changes=(Save(eviction("web", "member3")),)))], by=Actor("test"))

    found = row("web")

    assert [target.cluster for target in found.targets.all()] == ["member2"]
    assert [task.from_cluster for task in found.eviction_tasks.all()] == ["member1"]
    assert [one.cluster for one in found.evictions.all()] == ["member3"]
    assert [one.name for one in found.works] == ["web"]
    assert not row("other").eviction_tasks.exists()
    assert [taint.effect for taint in Cluster.objects.get().taints.all()] == ["NoExecute"]


def test_rows_lead_back_to_their_object() -> None:
    everywhere = replace(binding("whole", "member1", namespace=""), kind="ClusterResourceBinding")
    stored(binding("web", "member1"), everywhere, cluster("member1", "NoExecute"))

    assert sorted(one.binding_object.name for one in TargetCluster.objects.all()) == ["web", "whole"]
    assert Taint.objects.get().cluster_object.name == "member1"


def test_the_rows_of_many_objects_are_read_with_one_query(django_assert_num_queries: Callable[[int], Any]) -> None:
    stored(*(binding(f"web-{number}", "member1") for number in range(5)))

    with django_assert_num_queries(2):
        found = list(Binding.objects.prefetch_related("targets"))
        assert all(len(one.targets.all()) == 1 for one in found)


def test_objects_of_many_rows_are_read_with_one_query(django_assert_num_queries: Callable[[int], Any]) -> None:
    stored(*(binding(f"web-{number}", "member1") for number in range(5)))
    targets = list(TargetCluster.objects.all())

    with django_assert_num_queries(1):
        prefetch_related_objects(targets, "binding_object")
        assert {one.binding_object.reference for one in targets} == {one.binding for one in targets}


def test_filters_go_through_relations_in_both_directions() -> None:
    stored(binding("web", "member1"), binding("other", "member2"), cluster("member1", "NoExecute"))

    assert Binding.objects.get(targets__cluster="member1").name == "web"
    assert TargetCluster.objects.get(binding_object__name="other").cluster == "member2"
    assert TargetCluster.objects.get(binding_object=row("web")).cluster == "member1"
    assert Cluster.objects.filter(taints__effect="NoExecute").count() == 1
    assert not Eviction.objects.filter(binding_object__namespace="shop").exists()


def test_a_search_for_a_reference_says_how_to_search_instead() -> None:
    with pytest.raises(FieldError, match="filter by kind, namespace and name"):
        Binding.objects.get(reference="ResourceBinding:shop/web")


def test_a_relation_writes_nothing() -> None:
    stored(binding("web", "member1"), binding("other", "member2"))
    found = row("web")

    for write in (
        lambda: found.targets.create(cluster="member2", replicas=1),
        lambda: found.targets.add(TargetCluster.objects.get(cluster="member2")),
        lambda: found.targets.all().delete(),
    ):
        with pytest.raises(WriteRefused):
            write()

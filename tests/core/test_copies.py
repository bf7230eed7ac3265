"""Whose copy a Work is: its name and its place say it together with the annotation, never the annotation alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.names import WORK_FINALIZER, work_name
from controlplane.controllers.reads.bindings_on_clusters import clusters_where_needed
from controlplane.controllers.reservations import Reservations
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.kinds.binding import BindingSnapshot
from controlplane.kinds.cluster import ResourceSummary
from controlplane.kinds.rows import CapacityReservation, Collected
from controlplane.kinds.work import Work
from controlplane.kinds.work.rules import agent_work_faults, default
from controlplane.settings import Settings
from tests.builders import objects
from tests.builders.objects import START, binding, cluster
from tests.builders.placements import duplicated

WEB = binding("web", duplicated("member1"), on={"member1": 2})
SETTINGS = binding("settings", duplicated("member1"), on={})
COPY = work_name("Deployment", "web", "default")


def work(name: str) -> Work:
    """A Work on member1 that says it is a copy of WEB, and that the member has applied."""
    return objects.work(name, of=WEB, conditions=(objects.applied(),))


@pytest.mark.parametrize(("name", "clusters"), [(COPY, {"member1"}), ("forged", set())])
def test_only_a_copy_of_a_workload_keeps_what_the_workload_needs_on_a_cluster(name: str, clusters: set[str]) -> None:
    attached = SETTINGS.with_spec(required_by=(BindingSnapshot("default", WEB.metadata.name),))
    store = MemoryStore(controllers=())
    store.create(WEB, attached, work(name))

    assert clusters_where_needed(store, [attached]) == {attached.ref: clusters}


@pytest.mark.parametrize(("name", "applied"), [(COPY, {str(WEB.ref)}), ("forged", set())])
def test_only_a_copy_ends_a_reservation_of_its_binding_early(name: str, applied: set[str]) -> None:
    controller = Reservations()
    store = MemoryStore(controllers=[controller], clock=lambda: START)
    summary = ResourceSummary(allocatable={"pods": "10"})
    member1 = cluster("member1")
    member1 = member1.with_status(resource_summary=summary)
    store.create(member1, WEB, work(name))
    promise = CapacityReservation("web|member1", str(WEB.ref), "member1", 2, "", START - timedelta(minutes=1))
    report = replace(Collected("member1", at=START), resource_summary=summary)
    store.apply([(None, Decision(changes=(Save(promise), Save(report))))], by=Actor("test"))

    (promised,) = controller.load(store, [member1.ref])

    assert promised is not None
    assert promised.applied == applied


def test_an_agent_frees_a_work_that_a_controller_made_without_its_permanent_id() -> None:
    """Admission gives the Work its id in the same write: that label is no change of the agent's."""
    old = objects.work("made", "edge", finalizers=(WORK_FINALIZER,), deletion_timestamp=START)
    freed = default(old.with_meta(finalizers=()), old, Settings())

    assert freed.metadata.labels
    assert agent_work_faults(freed, old) == []
    assert agent_work_faults(old.with_status(conditions=()), old) == [], "a write of the status completes nothing"
    assert [cause.field for cause in agent_work_faults(freed.with_meta(labels={"a": "b"}), old)] == ["metadata.labels"]

"""WorkloadRebalancer: each workload is placed again once, whatever happens to the list afterwards
[workload-rebalancer]."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import ObjectMeta, Ref
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.controllers import rebalancer as rebalancing
from controlplane.controllers.rebalancer import Rebalancer
from controlplane.engine import run
from controlplane.engine.memory import MemoryStore
from controlplane.kinds import WORKLOAD_REBALANCER
from controlplane.kinds.binding import Binding, ObjectReference, ResourceBindingSpec
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import (
    RebalancedWorkload,
    WorkloadRebalancer,
    WorkloadRebalancerSpec,
    WorkloadSelector,
    validate,
)
from controlplane.propagation.bindings import binding_ref
from controlplane.scheduling.question import reschedule_asked
from controlplane.settings import Settings
from tests.builders import objects, templates

START = datetime(2026, 1, 1, tzinfo=UTC)
REBALANCER = Ref(WORKLOAD_REBALANCER, "", "again")


def workload(name: str) -> RebalancedWorkload:
    return RebalancedWorkload("apps/v1", "Deployment", name, "default")


def template(name: str, **labels: str) -> Template:
    return templates.deployment(name, uid=f"uid-{name}", labels=labels)


def bound(name: str, *, asked: datetime | None = None) -> Binding:
    ref = binding_ref(Ref("apps/Deployment", "default", name))
    resource = ObjectReference("apps/v1", "Deployment", name, "default")
    return objects.bound(ResourceBindingSpec(resource, reschedule_triggered_at=asked), name=ref.name)


def rebalancer(*names: str, made_at: datetime = START, **spec: Any) -> WorkloadRebalancer:
    return WorkloadRebalancer(
        "apps.karmada.io/v1alpha1",
        "WorkloadRebalancer",
        ObjectMeta(name="again", uid="uid-again", generation=1, creation_timestamp=made_at),
        WorkloadRebalancerSpec(tuple(map(workload, names)), **spec),
    )


class Desk:
    """A store with the rebalancer and a clock moved by hand."""

    def __init__(self, *objects: Any) -> None:
        self.now = START
        self.store = MemoryStore(controllers=[Rebalancer()], clock=lambda: self.now)
        self.store.create(*objects)
        self.settle()

    def settle(self) -> None:
        run.run_until_idle([Rebalancer()], self.store, Settings(), world=run.World())

    def rebalancer(self) -> WorkloadRebalancer:
        found: WorkloadRebalancer = self.store.get([REBALANCER])[REBALANCER]
        return found

    def change(self, **spec: Any) -> None:
        old = self.rebalancer()
        self.store.put(old.with_spec(**spec), old)
        self.settle()

    def asked(self, name: str) -> datetime | None:
        ref = binding_ref(Ref("apps/Deployment", "default", name))
        found: Binding = self.store.get([ref])[ref]
        return found.spec.reschedule_triggered_at

    def results(self) -> dict[str, tuple[str, str]]:
        return {one.workload.name: (one.result, one.reason) for one in self.rebalancer().status.observed_workloads}


def test_listed_workloads_are_asked_to_be_placed_again_and_missing_ones_are_reported() -> None:
    desk = Desk(bound("web"), bound("other"), rebalancer("web", "gone"))

    assert desk.asked("web") == START
    assert desk.asked("other") is None
    assert desk.results() == {"web": ("Successful", ""), "gone": ("Failed", "ReferencedBindingNotFound")}
    assert desk.rebalancer().status.finish_time == START
    assert desk.rebalancer().status.observed_generation == 1


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, START),
        (START - timedelta(seconds=1), START),
        (START, START),
        (START + timedelta(seconds=1), START + timedelta(seconds=1)),
    ],
)
def test_a_later_request_stands(asked: datetime | None, expected: datetime) -> None:
    desk = Desk(bound("web", asked=asked), rebalancer("web"))

    assert desk.asked("web") == expected
    assert desk.results() == {"web": ("Successful", "")}


def test_a_request_in_the_second_of_the_last_result_counts_as_later() -> None:
    scheduled = bound("web").with_status(last_scheduled_time=START)
    desk = Desk(scheduled, rebalancer("web"))
    found: Binding = desk.store.get([scheduled.ref])[scheduled.ref]

    assert desk.asked("web") == START  # the time of the rebalancer, which tools look for
    assert reschedule_asked(found.spec, found.status)


def test_editing_the_list_never_places_a_handled_workload_again() -> None:
    desk = Desk(bound("web"), bound("more"), rebalancer("web"))
    generation = desk.store.get([binding_ref(Ref("apps/Deployment", "default", "web"))])
    desk.now += timedelta(minutes=5)

    desk.change(workloads=(workload("more"),))
    desk.change(workloads=(workload("more"), workload("web")))

    assert desk.asked("more") == START
    assert desk.store.get(list(generation)) == generation
    assert set(desk.results()) == {"web", "more"}


def test_a_workload_that_is_no_longer_listed_goes_from_the_status_unless_it_was_placed_again() -> None:
    desk = Desk(bound("web"), rebalancer("web", "missing"))
    assert desk.results() == {"web": ("Successful", ""), "missing": ("Failed", "ReferencedBindingNotFound")}

    desk.change(workloads=(workload("gone"),))

    assert desk.results() == {"web": ("Successful", ""), "gone": ("Failed", "ReferencedBindingNotFound")}


def test_a_failed_workload_stays_failed_when_its_binding_comes_later() -> None:
    desk = Desk(rebalancer("web"))
    desk.store.create(bound("web"))

    desk.settle()
    desk.change(ttl_seconds_after_finished=600)

    assert desk.results() == {"web": ("Failed", "ReferencedBindingNotFound")}
    assert desk.asked("web") is None


def test_a_finished_rebalancer_goes_when_its_time_is_up() -> None:
    desk = Desk(bound("web"), rebalancer("web", ttl_seconds_after_finished=60))
    desk.now += timedelta(seconds=59)
    desk.settle()
    assert desk.rebalancer().status.finish_time == START

    desk.now += timedelta(seconds=1)
    desk.settle()

    assert desk.store.get([REBALANCER]) == {}


def test_a_selector_places_what_it_matches_again_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalancing, "AT_ONCE", 2)
    front = [template(f"front-{number}", tier="front") for number in range(5)]
    back = [template(f"back-{number}", tier="back") for number in range(3)]
    bindings = [bound(one.metadata.name) for one in (*front[:4], *back)]
    selector = WorkloadSelector("apps/v1", "Deployment", "default", LabelSelector({"tier": "front"}))

    desk = Desk(*front, *back, *bindings, rebalancer("back-1", workload_selector=selector))

    assert [desk.asked(f"front-{number}") for number in range(4)] == [START] * 4
    assert [desk.asked(f"back-{number}") for number in range(3)] == [None, START, None]
    selected = desk.rebalancer().status.selected_workloads
    assert selected is not None
    assert (selected.rebalanced, selected.unplaced, selected.complete) == (4, 1, True)
    assert desk.rebalancer().status.finish_time == START


class _Counted(MemoryStore):
    reads = 0

    def get(self, refs: Collection[Ref], *, unopened: bool = False) -> dict[Ref, Any]:
        self.reads += 1
        return super().get(refs, unopened=unopened)

    def list(self, kind: str, **more: Any) -> Sequence[Any]:
        self.reads += 1
        return super().list(kind, **more)


@pytest.mark.parametrize("size", [10, 300])
def test_the_number_of_queries_does_not_depend_on_the_list(size: int) -> None:
    names = [f"web-{number}" for number in range(size)]
    store = _Counted()
    selector = WorkloadSelector("apps/v1", "Deployment")
    store.create(*map(bound, names), *map(template, names), rebalancer(*names, workload_selector=selector))
    store.reads = 0

    Rebalancer().load(store, [REBALANCER])

    assert store.reads == 3


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (WorkloadRebalancerSpec(), "spec.workloads"),
        (WorkloadRebalancerSpec((RebalancedWorkload("apps/v1", "", "web"),)), "spec.workloads[0].kind"),
        (WorkloadRebalancerSpec((workload("web"), workload("web"))), "spec.workloads[1]"),
        (WorkloadRebalancerSpec((workload("web"),), ttl_seconds_after_finished=-1), "spec.ttlSecondsAfterFinished"),
        (WorkloadRebalancerSpec((), WorkloadSelector("apps/v1", "")), "spec.workloadSelector.kind"),
        (
            WorkloadRebalancerSpec((), WorkloadSelector("apps/v1", "Deployment", "", LabelSelector({"a b": "c"}))),
            "spec.workloadSelector.labelSelector.matchLabels",
        ),
    ],
)
def test_a_rebalancer_that_cannot_be_is_refused(spec: WorkloadRebalancerSpec, field: str) -> None:
    new = replace(rebalancer("web"), spec=spec)

    assert [cause.field for cause in validate(new, None, Settings())] == [field]


def test_a_selector_cannot_be_pointed_elsewhere() -> None:
    old = rebalancer(workload_selector=WorkloadSelector("apps/v1", "Deployment"))
    new = rebalancer("web", workload_selector=WorkloadSelector("apps/v1", "StatefulSet"))

    assert [cause.field for cause in validate(new, old, Settings())] == ["spec.workloadSelector"]

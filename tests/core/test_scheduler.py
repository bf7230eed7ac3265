"""The live scheduler in memory: what it writes, when it looks again, and whom a changed cluster concerns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, condition
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.engine import run
from controlplane.kinds.binding import (
    SCHEDULED,
    GracefulEvictionTask,
    TargetCluster,
)
from controlplane.kinds.cluster import (
    ResourceSummary,
    Taint,
)
from controlplane.kinds.policy import (
    ClusterAffinity,
    Placement,
    SpreadConstraint,
)
from controlplane.kinds.rows import CapacityReservation
from controlplane.scheduling.ledger import live
from controlplane.scheduling.question import reschedule_asked
from controlplane.scheduling.trigger import APPLIED_PLACEMENT
from tests.builders.objects import START, cluster
from tests.builders.placements import DYNAMIC, placement
from tests.core.desk import Desk, pending


def test_a_new_binding_is_placed_and_says_so() -> None:
    desk = Desk(cluster("a"), cluster("b"), pending("web", Placement(), replicas=2))

    done = desk.binding("web")

    assert desk.places("web") == {"a": 2, "b": 2}
    assert desk.said("web") == ("True", "Success")
    assert done.status.scheduler_observed_generation == done.metadata.generation == 2
    assert done.status.last_scheduled_time == START
    assert msgspec.json.decode(done.metadata.annotations[APPLIED_PLACEMENT], type=Placement) == Placement()


def test_what_is_placed_is_left_alone() -> None:
    desk = Desk(cluster("a"), pending("web", Placement()))
    version = desk.store.version

    desk.store.mark("scheduler", [desk.binding("web").ref])
    desk.settle()

    assert desk.store.version == version


def test_an_attached_binding_without_placement_is_none_of_its_business() -> None:
    desk = Desk(cluster("a"), pending("config", None))

    assert desk.binding("config").status.conditions == ()


def test_copies_stay_where_a_new_placement_fits_nowhere() -> None:
    desk = Desk(cluster("a"), pending("web", Placement()))

    desk.change(desk.binding("web").with_spec(placement=Placement(ClusterAffinity(cluster_names=("gone",)))))

    assert desk.places("web") == {"a": 1}  # [placement-is-kept]
    assert desk.said("web") == ("False", "NoClusterFit")
    said = condition(desk.binding("web").status.conditions, SCHEDULED)
    assert said is not None
    assert "1 ClusterAffinity" in said.message


@pytest.mark.parametrize(
    ("refused", "reason"),
    [({"replicas": 99}, "Unschedulable"), ({"placement": placement("nowhere", how=DYNAMIC)}, "NoClusterFit")],
    ids=["scale-up", "policy"],
)
def test_a_binding_counts_as_scheduled_again_once_a_refused_change_is_undone(
    refused: dict[str, Any], reason: str
) -> None:
    desk = Desk(cluster("a", room=9), pending("web", placement(how=DYNAMIC), replicas=4))
    before = desk.binding("web")
    desk.change(before.with_spec(**refused))
    assert desk.said("web") == ("False", reason)

    undone = {name: getattr(before.spec, name) for name in refused}
    desk.change(desk.binding("web").with_spec(**undone))

    assert (desk.said("web"), desk.places("web")) == (("True", "Success"), {"a": 4})


def test_fifteen_workloads_share_ten_and_five_and_the_sixteenth_waits() -> None:
    items = [pending(f"w{number:02d}", Placement(replica_scheduling=DYNAMIC)) for number in range(16)]
    desk = Desk(cluster("b", room=10), cluster("c", room=5), *items)

    taken = [name for number in range(16) for name in desk.places(f"w{number:02d}")]

    assert (taken.count("b"), taken.count("c")) == (10, 5)
    held = [f"w{number:02d}" for number in range(16) if not desk.places(f"w{number:02d}")]
    assert len(held) == 1
    assert desk.said(held[0]) == ("False", "Unschedulable")


def test_reserved_capacity_is_kept_over_batches_and_expires_after_300_seconds() -> None:
    desk = Desk(cluster("b", room=1), pending("one", Placement(replica_scheduling=DYNAMIC)))
    desk.store.create(pending("two", Placement(replica_scheduling=DYNAMIC)))
    desk.settle()
    assert desk.said("two") == ("False", "Unschedulable")

    desk.wait(301)  # the first copy was never seen running

    assert desk.places("two") == {"b": 1}
    promises = desk.store.rows(CapacityReservation, "cluster", ["b"])["b"]
    assert [one.binding[-3:] for one in live(promises, collected_at={}, now=desk.store.now())] == ["two"]


def test_a_waiting_binding_is_placed_when_room_appears() -> None:
    desk = Desk(cluster("b", room=1), pending("two", Placement(replica_scheduling=DYNAMIC), replicas=2))
    assert desk.said("two") == ("False", "Unschedulable")

    grown = cluster("b").with_status(resource_summary=ResourceSummary({"pods": "5", "cpu": "9"}))
    desk.change(grown)

    assert desk.places("two") == {"b": 2}


def test_a_recovered_cluster_gets_its_copy_back_and_shares_stay_where_they_are() -> None:
    away = Taint("cluster.karmada.io/not-ready", "NoExecute")
    desk = Desk(
        cluster("a", room=9, taints=(away,)),
        cluster("b", room=9),
        pending("copy", Placement()),
        pending("share", Placement(replica_scheduling=DYNAMIC), replicas=3),
    )
    assert desk.places("copy") == {"b": 1}

    desk.change(desk.cluster("a").with_spec(taints=()))

    assert desk.places("copy") == {"a": 1, "b": 1}  # [recovered-clusters]
    assert desk.places("share") == {"b": 3}


def test_a_lost_share_is_placed_again_elsewhere() -> None:
    desk = Desk(
        cluster("a", room=9), cluster("b", room=9), pending("share", Placement(replica_scheduling=DYNAMIC), replicas=4)
    )
    assert desk.places("share") == {"a": 2, "b": 2}

    tainted = desk.cluster("a").with_spec(taints=(Taint("down", "NoExecute"),))
    desk.change(tainted)
    old = desk.binding("share")
    task = GracefulEvictionTask("a", reason="TaintUntolerated")
    desk.change(old.with_spec(clusters=(TargetCluster("b", 2),), graceful_eviction_tasks=(task,)))

    assert desk.places("share") == {"b": 4}


def test_of_lost_shares_the_part_that_fits_is_placed_while_the_source_is_unreachable() -> None:
    desk = Desk(
        cluster("a", room=5), cluster("b", room=3), pending("share", Placement(replica_scheduling=DYNAMIC), replicas=5)
    )
    before = desk.places("share")
    desk.wait(301)
    down = desk.cluster("a").with_spec(taints=(Taint("down", "NoExecute"),))
    desk.change(down.with_status(conditions=(Condition("Ready", "False"),)))
    small = cluster("b").with_status(resource_summary=ResourceSummary({"pods": "1", "cpu": "9"}))
    desk.change(small)
    task = GracefulEvictionTask("a", reason="TaintUntolerated")
    kept = TargetCluster("b", before["b"])

    desk.change(desk.binding("share").with_spec(clusters=(kept,), graceful_eviction_tasks=(task,)))

    assert desk.places("share") == {"b": before["b"] + 1}  # [refuge-first]
    assert desk.said("share") == ("False", "Unschedulable")


def test_a_suspended_binding_waits() -> None:
    from controlplane.kinds.binding import BindingSuspension

    held = pending("web", Placement())
    desk = Desk(cluster("a"), replace(held, spec=replace(held.spec, suspension=BindingSuspension(scheduling=True))))

    assert desk.places("web") == {}


@pytest.mark.parametrize("kind", ["discouraging", "closed", "opened", "label", "room"])
def test_a_changed_cluster_asks_only_for_the_bindings_it_concerns(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Placement(ClusterAffinity(label_selector=LabelSelector({"tier": "gold"})))
    other = Placement(ClusterAffinity(cluster_names=("b",)))
    shared = Placement(ClusterAffinity(cluster_names=("a",)), replica_scheduling=DYNAMIC)
    by_region = Placement(spread_constraints=(SpreadConstraint("region", min_groups=1, max_groups=1),))
    desk = Desk(
        cluster("a", room=50, region="north", labels={"tier": "gold"}, taints=(Taint("old", "PreferNoExecute"),)),
        cluster("b", room=50, region="south"),
        *(pending(f"mine{number}", mine) for number in range(5)),
        *(pending(f"other{number}", other) for number in range(5)),
        *(pending(f"shared{number}", shared) for number in range(5)),
        pending("waits", shared, replicas=500),
        pending("grouped", by_region),
    )
    old = desk.cluster("a")
    new = {
        "discouraging": old.with_spec(taints=(*old.spec.taints, Taint("down", "PreferNoSchedule"))),
        "closed": old.with_spec(taints=(*old.spec.taints, Taint("down", "NoSchedule"), Taint("down", "NoExecute"))),
        "opened": old.with_spec(taints=()),
        "label": old.with_meta(labels={"tier": "gold", "new": "yes"}),
        "room": old.with_status(resource_summary=ResourceSummary({"pods": "60", "cpu": "90"})),
    }[kind]

    desk.store.put(new, old)
    read, page = list[str](), desk.store.page_by_index

    def recorded(*args: Any, **more: Any) -> Sequence[Any]:
        found = page(*args, **more)
        read.extend(one.metadata.name for one in found)
        return found

    monkeypatch.setattr(desk.store, "page_by_index", recorded)
    follow, grouped = [f"mine{number}" for number in range(5)], [] if kind == "room" else ["grouped"]
    concerned = sorted([*(follow if kind not in ("room", "closed") else ()), *grouped, "waits"])

    assert desk.decided() == concerned
    if kind in ("room", "closed"):
        assert sorted(read) == concerned, "one bug: a tainted cluster read all bindings that may choose it"


@pytest.mark.parametrize("later", ["before the first page", "after the first page"])
def test_clusters_that_change_together_go_through_the_bindings_once(
    later: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of 300 clusters came back: each made the same 20,000 bindings due, page by page."""
    monkeypatch.setattr(run, "FAN_OUT_CHUNK", 3)
    tainted = [cluster(f"member{number}", taints=(Taint("down", "NoSchedule"),)) for number in range(8)]
    bindings = [pending(f"web{number}", Placement()) for number in range(6)]
    desk = Desk(cluster("a"), *tainted, *bindings)
    read, page = list[str](), desk.store.page_by_index

    def recorded(*args: Any, **more: Any) -> Sequence[Any]:
        found = page(*args, **more)
        read.extend(one.metadata.name for one in found)
        return found

    def opened(names: Sequence[str]) -> None:
        for name in names:
            desk.store.put(desk.cluster(name).with_spec(taints=()), desk.cluster(name))

    monkeypatch.setattr(desk.store, "page_by_index", recorded)
    names = [one.metadata.name for one in tainted]
    opened(names[:4])
    if later == "after the first page":
        run.run_batch(desk.controllers[0], desk.store, desk.settings, world=run.World())
    opened(names[4:])

    desk.settle()

    assert all(len(desk.places(f"web{number}")) == 9 for number in range(6))
    assert len(read) == (6 if later == "before the first page" else 12)


def test_what_cannot_be_spread_is_tried_again_soon_and_then_more_slowly() -> None:
    wide = Placement(spread_constraints=(SpreadConstraint("cluster", min_groups=3, max_groups=3),))
    desk = Desk(cluster("a"), pending("web", wide))
    assert desk.said("web") == ("False", "SchedulerError")

    waits = []
    for _ in range(8):
        due = desk.store.next_due(["scheduler"])
        assert due is not None
        waits.append((due - desk.now).total_seconds())
        desk.wait(waits[-1])

    assert waits == [1, 1, 2, 4, 8, 10, 10, 10]


@pytest.mark.parametrize(
    "change", [{}, {"replicas": 3}, {"placement": Placement()}], ids=["alone", "more", "elsewhere"]
)
@pytest.mark.parametrize("at_once", [True, False], ids=["with the request", "after the answer"])
def test_a_request_of_the_next_second_is_answered_once(change: dict[str, Any], at_once: bool) -> None:
    """The clock of who writes the request, for example a person's, may be ahead."""
    desk = Desk(cluster("a"), cluster("b"), pending("web", Placement(replica_scheduling=DYNAMIC), replicas=2))
    asked = START + timedelta(seconds=1)

    if not at_once:
        desk.change(desk.binding("web").with_spec(reschedule_triggered_at=asked))
    desk.change(desk.binding("web").with_spec(reschedule_triggered_at=asked, **change))

    assert desk.binding("web").status.last_scheduled_time == asked
    assert not reschedule_asked(desk.binding("web").spec, desk.binding("web").status)

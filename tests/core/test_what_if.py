"""What-if answers from a snapshot what changes would do: moves, copies without a place, and what holds the others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.controllers.reads.supposed_snapshot import supposed_snapshot
from controlplane.engine.decision import Decision, Save
from controlplane.engine.memory import MemoryStore
from controlplane.engine.state import Actor
from controlplane.insight.changes import (
    Change,
    ClusterRemoved,
    ClustersDrained,
    ClustersLost,
    Cordoned,
    GateOrRateChanged,
    HoldEdited,
    ObjectsDeleted,
    TaintAdded,
)
from controlplane.insight.effects import Affected, Effects, readable, sentence_of
from controlplane.insight.what_if import what_if
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Taint
from controlplane.kinds.policy import DIRECTLY, ClusterFailoverBehavior, Toleration
from controlplane.kinds.rows import FleetState, Row
from controlplane.kinds.taint_policy import TaintToAdd
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, binding, cluster, not_ready_policy
from tests.builders.placements import by_room, by_weight, duplicated
from tests.builders.steering import hold
from tests.core.fleet_story import FAILOVER

WINDOW = TaintToAdd("down", "NoExecute").add_on_match_seconds
NOW = START + timedelta(hours=1)
FLEET = tuple(cluster(f"member{number}", region="north" if number < 3 else "south") for number in (1, 2, 3, 4))
LOST = ClustersLost(("member1",))
ANYWHERE = duplicated(least=1, most=1)
WATCHED = FleetState("default", failover_on_since=START)
HOLD = hold("h", reason="fair")


def asked(
    *objects: Any, change: Change | Sequence[Change] = LOST, settings: Settings = FAILOVER, state: FleetState = WATCHED
) -> Effects:
    store = MemoryStore()
    rows = [state, *(one for one in objects if isinstance(one, Row))]
    stored = {one.ref: one for one in (*FLEET, not_ready_policy(), *objects) if not isinstance(one, Row)}
    store.create(*stored.values())
    store.apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))
    changes = [change] if not isinstance(change, Sequence) else list(change)
    snapshot = supposed_snapshot(store, changes, settings=settings, base=settings, now=NOW)
    return what_if(snapshot, changes, settings, now=NOW)


def hold_of(reason: str = "change freeze", **spec: Any) -> HoldEdited:
    return HoldEdited(
        {
            "apiVersion": HOLD.api_version,
            "kind": "EvictionHold",
            "metadata": {"name": "h"},
            "spec": {"reason": reason, **spec},
        }
    )


def window_of(*names: str) -> HoldEdited:
    spec = {"clusters": names, "until": (NOW + timedelta(hours=2)).isoformat(), "reason": "new kernels"}
    return HoldEdited(
        {"apiVersion": HOLD.api_version, "kind": "MaintenanceWindow", "metadata": {"name": "w"}, "spec": spec}
    )


def web(name: str = "web", **more: Any) -> Binding:
    return binding(name, more.pop("placement", ANYWHERE), on=more.pop("on", {"member1": 2}), **more)


def names(found: Sequence[Affected]) -> list[str]:
    return [one.workload for one in found]


def test_the_copies_of_a_lost_cluster_move_and_the_answer_names_where_to_and_when() -> None:
    found = asked(web())

    (move,) = found.moves
    assert (move.workload, move.from_, move.to) == ("Deployment default/web", {"member1": 2}, {"member2": 2})
    assert found.sentence == "moves 1, 1 namespace"
    assert (found.tier, found.rate) == ("Normal", FAILOVER.resource_eviction_rate)
    assert found.eta_seconds == FAILOVER.cluster_failure_threshold + WINDOW


def test_clusters_are_also_lost_by_region() -> None:
    found = asked(web(), web("shop", on={"member3": 2}), change=ClustersLost(regions=("north",)))

    assert names(found.moves) == ["Deployment default/web"]
    assert set(found.moves[0].to) <= {"member3", "member4"}


def test_each_move_takes_its_room_before_the_next_one_is_placed() -> None:
    tight = (cluster("member2", room=2), cluster("member3", room=2), cluster("member4", room=0))
    apps = [web(f"app{number}", placement=by_room(), cpu="1", on={"member1": 2}) for number in range(3)]

    found = asked(*tight, *apps)

    assert names(found.moves) == ["Deployment default/app0", "Deployment default/app1"]
    assert names(found.without_place) == ["Deployment default/app2"]
    assert found.without_place[0].message == "the selected clusters have room for 0 of 2 replicas"
    assert found.overpacked == ()
    assert found.sentence == "moves 2, 1 without a place, 1 namespace"


def test_a_cluster_that_gets_more_than_it_has_room_for_is_named() -> None:
    tight = cluster("member2", room=3)

    found = asked(tight, web(placement=by_weight(member1=1, member2=1), on={"member1": 2, "member2": 2}, replicas=8))

    (packed,) = found.overpacked
    assert (packed.cluster, packed.resource, packed.needed, packed.room) == ("member2", "pods", 6, 3)


NEVER: dict[str, tuple[dict[str, Any], str, str]] = {
    "a hold": ({"objects": (HOLD,)}, "held", "OnHold"),
    "no refuge": ({"on": {"member1": 2}, "placement": duplicated("member1")}, "without_place", "NoRefuge"),
    "a toleration": (
        {"placement": duplicated(least=1, most=1, tolerations=[Toleration("down", "Exists", effect="NoExecute")])},
        "stays",
        "Tolerated",
    ),
    "too many faulty clusters": (
        {"change": ClustersLost(("member1", "member2", "member3"))},
        "held",
        "EvictionsStopped",
    ),
}


@pytest.mark.parametrize("case", NEVER)
def test_what_keeps_a_copy_where_it_is_is_named(case: str) -> None:
    given, where, reason = NEVER[case]
    kept = {key: value for key, value in given.items() if key in ("placement", "on")}

    found = asked(web(**kept), *given.get("objects", ()), change=given.get("change", LOST))

    assert found.moves == ()
    assert [one.reason for one in getattr(found, where)] == [reason]


def test_new_copies_that_a_person_has_to_allow_are_listed_twice() -> None:
    found = asked(web(failover=ClusterFailoverBehavior(purge_mode=DIRECTLY)))

    assert names(found.moves) == names(found.waits_for_person) == ["Deployment default/web"]
    assert "lifeboat fence member1" in found.waits_for_person[0].message
    assert found.sentence == "moves 1, 1 waits for a person, 1 namespace"


def test_no_cluster_left_means_that_nothing_moves() -> None:
    found = asked(web(), change=ClustersLost(regions=("north", "south")))

    assert (found.moves, found.tier) == ((), "Blind")


def test_without_the_gate_a_taint_evicts_nothing() -> None:
    settings = replace(FAILOVER, feature_gates=dict(GATES))

    found = asked(web(), settings=settings, state=FleetState("default"))

    assert found.sentence == "moves nothing"
    assert found.remarks == ("the feature gate Failover is off, so no taint evicts copies",)


def test_the_gate_that_opens_evicts_from_clusters_that_are_down() -> None:
    closed = replace(FAILOVER, feature_gates=dict(GATES))
    down = cluster("member1", ready="False")
    opened = GateOrRateChanged({"featureGates": {"Failover": True}})

    found = asked(down, web(), change=opened, settings=closed, state=FleetState("default"))

    assert names(found.moves) == ["Deployment default/web"]


def test_a_drain_moves_at_its_own_rate_and_one_cluster_after_the_other() -> None:
    apps = [web("app0"), web("app1"), web("app2", on={"member2": 2})]

    found = asked(*apps, change=ClustersDrained(("member1", "member2"), 0.1))

    assert len(found.moves) == 3
    assert {name for one in found.moves for name in one.to} <= {"member3", "member4"}
    assert found.eta_seconds == 20


def test_a_taint_of_a_user_evicts_at_once_and_a_cordon_moves_nothing() -> None:
    gone = asked(web(), change=TaintAdded("member1", Taint("gone", "NoExecute")))
    cordoned = asked(web(), change=Cordoned(("member1",)))

    assert (len(gone.moves), gone.eta_seconds) == (1, 1 / FAILOVER.resource_eviction_rate)
    assert cordoned.sentence == "moves nothing"


def test_a_cluster_with_bindings_is_removed_only_with_a_word_about_its_copies() -> None:
    refused = asked(web(), change=ClusterRemoved("member1"))
    kept = asked(web(), change=ClusterRemoved("member1", "keep"))

    assert refused.moves == ()
    assert "bindings are placed on cluster member1" in refused.refused[0]
    assert names(kept.moves) == ["Deployment default/web"]


def test_a_deleted_workload_loses_its_copies() -> None:
    found = asked(web(), web("shop"), change=ObjectsDeleted(("apps/Deployment:default/web",)))

    assert names(found.removed) == ["Deployment default/web"]
    assert found.sentence == "removes the copies of 1, 1 namespace"


def test_the_end_of_a_hold_releases_what_it_holds() -> None:
    down = cluster("member1", ready="False", taints=[Taint("down", "NoExecute", time_added=START)])

    held, released = (asked(down, HOLD, web(), change=change) for change in ([], ObjectsDeleted((str(HOLD.ref),))))

    assert (held.sentence, len(released.moves)) == ("moves nothing", 1)


def test_a_new_hold_holds_what_waits_and_concerns_nothing_else() -> None:
    down, gone = (
        cluster(name, ready="False", taints=[Taint("down", "NoExecute", time_added=START)])
        for name in ("member1", "member2")
    )
    elsewhere = web("other", on={"member2": 1})

    found = asked(down, gone, web(), elsewhere, change=hold_of(clusters=("member1",)))
    window = asked(down, gone, web(), elsewhere, change=window_of("member1"))

    assert (names(found.held), found.moves, found.queued_before) == (["Deployment default/web"], (), 1)
    assert found.sentence == "moves nothing, 1 held, 1 namespace"
    assert (names(window.held), window.moves) == (["Deployment default/web"], ())


def test_a_hold_that_covers_less_than_before_releases_the_rest() -> None:
    down = cluster("member1", ready="False", taints=[Taint("down", "NoExecute", time_added=START)])

    found = asked(down, HOLD, web(), change=hold_of(clusters=("member2",)))

    assert (names(found.moves), found.held) == (["Deployment default/web"], ())


def test_an_invalid_hold_is_refused_as_its_write_would_be() -> None:
    assert "spec.reason" in asked(web(), change=hold_of(reason="")).refused[0]
    unnamed = asked(web(), change=HoldEdited({"kind": "EvictionHold"}))
    assert unnamed.refused[0].startswith("name a hold: apiVersion, kind (EvictionHold, MaintenanceWindow)")


def test_a_reader_of_one_namespace_sees_its_names_and_all_numbers() -> None:
    found = asked(web(), web("other"))
    elsewhere = replace(
        found.moves[0], binding="work.karmada.io/ResourceBinding:shop/web", workload="Deployment shop/web"
    )
    both = replace(found, moves=(elsewhere, *found.moves), namespaces=("default", "shop"))

    shown = readable(both, lambda ref: ref.namespace == "default")

    assert (names(shown.moves), shown.hidden) == (names(found.moves), {"moves": 1})
    assert (shown.sentence, shown.namespaces) == (both.sentence, ("default",))
    assert readable(both, lambda ref: True) is both


def test_a_change_that_names_no_cluster_is_refused() -> None:
    found = asked(web(), change=ClustersLost(("member9",)))

    assert found.sentence == "refused: there is no cluster member9; moves nothing"


def test_the_sentence_counts_what_there_is() -> None:
    assert sentence_of(moves=43, without_place=2, namespaces=5) == "moves 43, 2 without a place, 5 namespaces"


def test_the_loss_of_a_region_or_provider_without_clusters_is_refused() -> None:
    found = asked(change=ClustersLost(regions=("north", "nroth"), providers=("",)))

    assert found.refused == ("there is no cluster of region nroth", "there is no cluster of provider ")

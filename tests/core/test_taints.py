"""Automatic taints, ClusterTaintPolicies in both dialects, and whose taint is whose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.admission.admit import Admitted, admit_update
from controlplane.apimachinery.meta import Condition
from controlplane.clusters import taints
from controlplane.engine.decision import Decision, Delete
from controlplane.engine.state import Actor
from controlplane.kind import KINDS, to_wire
from controlplane.kinds import CLUSTER
from controlplane.kinds.cluster import Cluster, Taint
from controlplane.kinds.policy import ClusterAffinity
from controlplane.kinds.taint_policy import (
    ClusterTaintPolicy,
    MatchCondition,
    PolicyTaint,
    TaintToAdd,
)
from controlplane.settings import GATES, Compat, Settings
from tests.builders.objects import START, cluster, no_execute, taint_policy
from tests.core.fleet_story import FAILOVER, Story

NOT_READY = (MatchCondition("Ready", "In", ("False", "Unknown")),)
READY = (MatchCondition("Ready", "In", ("True",)),)
KEY = "cluster.karmada.io/not-ready"


def policy(name: str = "detect", *, at: datetime = START, **spec: object) -> ClusterTaintPolicy:
    return taint_policy(name, at=at, **spec)


def windowed(
    name: str = "detect", *, effect: str = "NoExecute", add: int = 300, remove: int = 180
) -> ClusterTaintPolicy:
    return policy(name, match_conditions=NOT_READY, taints_to_add=(TaintToAdd("down", effect, "", add, remove),))


def shown(story: Story, name: str = "member1") -> set[str]:
    return {f"{taint.key.rpartition('/')[2]}:{taint.effect}" for taint in story.cluster(name).spec.taints}


def fleet(*policies: ClusterTaintPolicy, settings: Settings = FAILOVER) -> Story:
    return Story(*(cluster(f"member{n}") for n in (1, 2, 3)), *policies, settings=settings)


def test_golden_s001_the_taint_comes_five_minutes_after_the_transition_to_the_second() -> None:
    began = datetime(2025, 1, 17, 2, 30, tzinfo=UTC)
    detect = policy(
        "detect-cluster-not-ready",
        at=began,
        target_cluster=ClusterAffinity(cluster_names=("member1", "member2")),
        match_conditions=NOT_READY,
        taints_to_add=(TaintToAdd(KEY, "PreferNoExecute", add_on_match_seconds=300, remove_on_mismatch_seconds=180),),
    )
    story = Story(*(cluster(f"member{n}", at=began) for n in (1, 2, 3)), detect, start=began)
    story.pass_seconds(386)
    story.ready("member1", "False")
    assert str(story.cluster("member1").status.conditions[0].last_transition_time) == "2025-01-17 02:36:26+00:00"

    story.pass_seconds(299)
    assert Taint(KEY, "PreferNoExecute") not in [
        replace(one, time_added=None) for one in story.cluster("member1").spec.taints
    ]
    story.pass_seconds(1)

    found = [one for one in story.cluster("member1").spec.taints if one.effect == "PreferNoExecute"]
    assert found == [Taint(KEY, "PreferNoExecute", time_added=datetime(2025, 1, 17, 2, 41, 26, tzinfo=UTC))]


@pytest.mark.parametrize(("ready", "taint"), [("False", "not-ready"), ("Unknown", "unreachable")])
def test_no_schedule_follows_ready_at_once_and_no_execute_never_by_itself(ready: str, taint: str) -> None:
    story = fleet()

    story.ready("member1", ready)
    story.pass_seconds(3600)
    assert shown(story) == {f"{taint}:NoSchedule"}

    story.ready("member1", "True")
    assert shown(story) == set()


def test_strict_reading_adds_nothing_automatically() -> None:
    story = fleet(settings=replace(FAILOVER, auto_no_schedule_taints=False))

    story.ready("member1", "False")

    assert shown(story) == set()


def test_compat_no_execute_comes_after_the_timeout_is_swapped_and_goes_when_ready() -> None:
    story = fleet(settings=replace(FAILOVER, compat=Compat(auto_no_execute_taints=True)))
    story.ready("member1", "False")

    story.pass_seconds(299)
    assert shown(story) == {"not-ready:NoSchedule"}
    story.pass_seconds(1)
    assert shown(story) == {"not-ready:NoSchedule", "not-ready:NoExecute"}
    story.ready("member1", "Unknown")
    assert shown(story) == {"unreachable:NoSchedule", "unreachable:NoExecute"}
    story.ready("member1", "True")
    assert shown(story) == set()


def test_lost_access_adds_no_schedule_and_nothing_else() -> None:
    story = fleet(windowed())

    story.access_lost("member1", "True")
    story.pass_seconds(3600)

    assert shown(story) == {"access-lost:NoSchedule"}


@pytest.mark.parametrize("settings", [FAILOVER, replace(FAILOVER, compat=Compat(auto_no_execute_taints=True))])
def test_while_access_is_lost_nothing_moves_by_what_ready_said_last(settings: Settings) -> None:
    story = fleet(*(() if settings.compat.auto_no_execute_taints else (windowed(),)), settings=settings)
    story.ready("member1", "False")
    story.pass_seconds(100)

    story.access_lost("member1", "True")
    story.pass_seconds(3600)
    assert shown(story) == {"not-ready:NoSchedule", "access-lost:NoSchedule"}

    story.access_lost("member1", "False")
    story.pass_seconds(299)
    assert shown(story) == {"not-ready:NoSchedule"}
    story.pass_seconds(1)
    assert {one.effect for one in story.cluster("member1").spec.taints} > {"NoSchedule"}


def test_a_policy_about_lost_access_itself_still_counts() -> None:
    asked = MatchCondition("AccessLost", "In", ("True",))
    taint = TaintToAdd("shut-out", "NoExecute", add_on_match_seconds=60)
    story = fleet(policy("shut-out", match_conditions=(asked,), taints_to_add=(taint,)))

    story.access_lost("member1", "True")
    story.pass_seconds(60)

    assert "shut-out:NoExecute" in shown(story)


def _edit_conditions(old: ClusterTaintPolicy) -> ClusterTaintPolicy:
    return old.with_spec(match_conditions=(MatchCondition("Ready", "In", ("Unknown",)),))


def _edit_target(old: ClusterTaintPolicy) -> ClusterTaintPolicy:
    return old.with_spec(target_cluster=ClusterAffinity(cluster_names=("member2",)))


def _edit_taints(old: ClusterTaintPolicy) -> ClusterTaintPolicy:
    return old.with_spec(taints_to_add=(TaintToAdd("other", "NoSchedule"),))


@pytest.mark.parametrize("edit", [_edit_conditions, _edit_target, _edit_taints])
def test_editing_a_policy_withdraws_its_taints_at_once(
    edit: Callable[[ClusterTaintPolicy], ClusterTaintPolicy],
) -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    old = story.store.get([windowed().ref])[windowed().ref]

    story.store.put(edit(old), old)
    story.work()

    assert "down:NoExecute" not in shown(story)


TOO = TaintToAdd("down", "NoExecute", "worse", 300, 180)
PLAIN = PolicyTaint("down", "NoExecute", "worse")


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("dialect", [{"taints_to_add": (TOO,)}, {"taints": (PLAIN,)}])
def test_a_taint_whose_value_is_edited_makes_room_for_the_new_one(dialect: dict[str, Any], others: bool) -> None:
    """It is another taint, judged by itself; where another policy wants it as it was, it stays."""
    one = windowed() if "taints_to_add" in dialect else unwindowed(add_on_conditions=NOT_READY)
    story = fleet(one, *([windowed("other")] if others else []))
    story.ready("member1", "False")
    story.pass_seconds(400)
    (before,) = (taint for taint in story.cluster("member1").spec.taints if taint.effect == "NoExecute")
    old = story.store.get([one.ref])[one.ref]

    story.store.put(old.with_spec(**dialect), old)
    story.work()

    (after,) = (taint for taint in story.cluster("member1").spec.taints if taint.effect == "NoExecute")
    assert (before.value, after) == ("", before if others else Taint("down", "NoExecute", "worse", story.now))


def delete(story: Story, one: ClusterTaintPolicy) -> None:
    old = story.store.get([one.ref])[one.ref]
    story.store.apply([(None, Decision(changes=(Delete(old),)))], by=Actor("test"))
    story.work()


def test_deleting_a_policy_withdraws_its_taints_at_once() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)

    delete(story, windowed())

    assert shown(story) == {"not-ready:NoSchedule"}


def test_a_taint_two_policies_want_stays_while_one_wants_it() -> None:
    story = fleet(windowed("one"), windowed("two"))
    story.ready("member1", "False")
    story.pass_seconds(300)
    before = story.cluster("member1").spec.taints

    delete(story, windowed("one"))
    assert story.cluster("member1").spec.taints == before
    delete(story, windowed("two"))
    assert shown(story) == {"not-ready:NoSchedule"}


def test_a_persons_taint_is_never_removed_by_a_policy() -> None:
    mine = Taint("down", "NoExecute", "mine", START)
    story = Story(cluster("member1", taints=[mine]), cluster("member2"), cluster("member3"), windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    story.ready("member1", "True")
    story.pass_seconds(600)

    assert story.cluster("member1").spec.taints == (mine,)
    assert taints.OWNERS_ANNOTATION not in story.cluster("member1").metadata.annotations


def test_a_taint_a_person_takes_off_stays_off_until_the_match_ends_and_begins_again() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)

    story.untaint("member1")
    story.pass_seconds(3600)
    assert shown(story) == {"not-ready:NoSchedule"}, "a cluster that is not Ready gets nothing new"

    story.ready("member1", "True")
    story.pass_seconds(180)
    story.ready("member1", "False")
    story.pass_seconds(300)
    assert shown(story) == {"not-ready:NoSchedule", "down:NoExecute"}


def test_a_taint_a_person_takes_off_and_puts_on_again_is_the_persons() -> None:
    mine = Taint("down", "NoExecute", "mine", START + timedelta(seconds=301))
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    story.untaint("member1")

    story.taint("member1", mine)
    story.ready("member1", "True")
    assert not taints.ending(story.cluster("member1"))
    story.pass_seconds(600)
    assert story.cluster("member1").spec.taints == (mine,)

    story.untaint("member1")
    story.ready("member1", "False")
    story.pass_seconds(300)
    assert "down:NoExecute" in shown(story)


def test_a_taint_of_readys_a_person_takes_off_does_not_come_back_under_the_other_key() -> None:
    settings = replace(FAILOVER, compat=Compat(auto_no_execute_taints=True))
    story = fleet(settings=settings)
    story.ready("member1", "False")
    story.pass_seconds(settings.failover_eviction_timeout)
    assert "not-ready:NoExecute" in shown(story)

    story.untaint("member1")
    story.ready("member1", "Unknown")
    story.pass_seconds(3600)
    assert shown(story) == {"unreachable:NoSchedule"}

    story.ready("member1", "True")
    story.ready("member1", "Unknown")
    story.pass_seconds(settings.failover_eviction_timeout)
    assert "unreachable:NoExecute" in shown(story)


def test_a_policys_taint_of_that_name_does_not_shorten_readys_own_timeout() -> None:
    taint = TaintToAdd(KEY, "NoExecute", add_on_match_seconds=10)
    early = policy(match_conditions=NOT_READY, taints_to_add=(taint,))
    story = fleet(early, settings=replace(FAILOVER, compat=Compat(auto_no_execute_taints=True)))

    story.ready("member1", "False")
    story.pass_seconds(20)
    story.ready("member1", "Unknown")
    story.pass_seconds(100)

    assert shown(story) == {"unreachable:NoSchedule", "not-ready:NoExecute"}


def test_what_a_person_took_off_put_on_and_took_off_again_stays_off() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)

    story.untaint("member1")
    story.taint("member1", Taint("down", "NoExecute", time_added=story.now))
    story.untaint("member1")
    story.pass_seconds(3600)

    assert shown(story) == {"not-ready:NoSchedule"}


def removed(story: Story, name: str = "member1", *, settings: Settings = FAILOVER) -> Admitted:
    """As `kubectl patch cluster --type=merge -p '{"spec":{"taints":null}}'` writes it."""
    live = story.cluster(name)
    doc = msgspec.to_builtins(to_wire(live))
    doc["spec"] = {"syncMode": "Pull"}
    return admit_update(KINDS[CLUSTER], doc, live, settings=settings, now=story.now)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_no_write_makes_a_cluster_that_is_not_ready_schedulable(ready: str) -> None:
    story = fleet(windowed())
    story.ready("member1", ready)
    story.pass_seconds(300)
    assert "down:NoExecute" in shown(story)

    written = removed(story)

    assert isinstance(written.object, Cluster)
    (left,) = written.object.spec.taints
    assert left in story.cluster("member1").spec.taints, "it is the same taint, with its time"
    assert left.effect == "NoSchedule"
    (said,) = written.warnings
    assert f"{left.key}:NoSchedule stays" in said
    assert "auto_no_schedule_taints" in said


def test_a_cluster_that_refuses_access_keeps_its_taint_too() -> None:
    story = fleet()
    shut = story.cluster("member1")
    lost = Condition("AccessLost", "True", "AccessRefused", last_transition_time=START)
    story.store.put(shut.with_status(conditions=(*shut.status.conditions, lost)), shut)
    story.work()
    assert shown(story) == {"access-lost:NoSchedule"}

    written = removed(story)

    assert isinstance(written.object, Cluster)
    assert [one.key for one in written.object.spec.taints] == ["failover.lifeboat.io/access-lost"]
    assert "refuses access" in written.warnings[0]


def test_without_automatic_taints_nothing_is_kept_and_nothing_said() -> None:
    settings = replace(FAILOVER, auto_no_schedule_taints=False)
    story = fleet()
    story.ready("member1", "False")

    written = removed(story, settings=settings)

    assert isinstance(written.object, Cluster)
    assert (written.object.spec.taints, written.warnings) == ((), ())


def test_a_persons_taint_of_that_name_is_the_persons_to_remove() -> None:
    mine = Taint(KEY, "NoSchedule", "mine")
    story = Story(cluster("member1", taints=[mine]), cluster("member2"))
    story.ready("member1", "False")
    assert story.cluster("member1").spec.taints == (mine,)

    assert removed(story).warnings == ()
    story.untaint("member1")

    (ours,) = story.cluster("member1").spec.taints
    assert ours.value == ""
    story.ready("member1", "True")
    assert shown(story) == set()


def unwindowed(**spec: object) -> ClusterTaintPolicy:
    return policy(taints=(PolicyTaint("down", "NoExecute"),), **spec)


def test_without_windows_conditions_add_and_remove_at_once() -> None:
    story = fleet(unwindowed(add_on_conditions=NOT_READY, remove_on_conditions=READY))

    story.ready("member1", "False")
    assert "down:NoExecute" in shown(story)
    story.ready("member1", "True")
    assert shown(story) == set()


def test_without_windows_and_remove_conditions_the_taint_stays_while_the_policy_exists() -> None:
    story = fleet(unwindowed(add_on_conditions=NOT_READY))

    story.ready("member1", "False")
    story.ready("member1", "True")
    story.pass_seconds(3600)
    assert shown(story) == {"down:NoExecute"}

    delete(story, unwindowed())
    assert shown(story) == set()


def test_without_windows_no_add_conditions_means_never() -> None:
    story = fleet(unwindowed())

    story.pass_seconds(3600)

    assert shown(story) == set()


def test_gate_off_withdraws_what_policies_own_and_keeps_what_ready_owns() -> None:
    story = fleet(windowed(), windowed("soft", effect="NoSchedule"))
    story.ready("member1", "False")
    story.pass_seconds(300)
    assert shown(story) == {"not-ready:NoSchedule", "down:NoExecute", "down:NoSchedule"}

    story.settings = Settings(feature_gates=dict(GATES))
    story.store.mark("cluster_taints", [story.cluster("member1").ref])
    story.work()

    assert shown(story) == {"not-ready:NoSchedule"}


def test_windows_count_from_when_the_gate_opened() -> None:
    story = fleet(windowed(), settings=Settings(feature_gates=dict(GATES)))
    story.ready("member1", "False")
    story.pass_seconds(1000)
    story.settings = FAILOVER
    story.pass_seconds(5)
    story.store.mark("cluster_taints", [story.cluster("member1").ref])
    story.work()

    assert "down:NoExecute" not in shown(story)
    story.pass_seconds(300)
    assert "down:NoExecute" in shown(story)


def test_when_all_clusters_fail_no_taint_that_moves_workloads_is_added() -> None:
    story = fleet(windowed(), windowed("prefer", effect="PreferNoExecute"), windowed("soft", effect="NoSchedule"))
    for name in ("member1", "member2", "member3"):
        story.ready(name, "False")

    story.pass_seconds(1800)

    assert shown(story) == {"not-ready:NoSchedule", "down:NoSchedule"}
    assert len(story.events("FleetBlind")) == 1


def test_after_blindness_the_windows_restart() -> None:
    story = fleet(windowed())
    for name in ("member1", "member2", "member3"):
        story.ready(name, "False")
    story.pass_seconds(1800)
    for name in ("member2", "member3"):
        story.ready(name, "True")

    story.pass_seconds(299)
    assert shown(story) == {"not-ready:NoSchedule"}
    story.pass_seconds(6)
    assert shown(story) == {"not-ready:NoSchedule", "down:NoExecute"}


def test_a_persons_taint_without_a_time_gets_one() -> None:
    story = fleet()

    story.taint("member1", Taint("mine", "NoExecute"), Taint("soft", "NoSchedule"))

    assert story.cluster("member1").spec.taints == (Taint("mine", "NoExecute", "", START), Taint("soft", "NoSchedule"))


def test_taints_and_windows_do_not_change_when_nothing_changes() -> None:
    story = fleet(windowed())
    story.ready("member1", "False")
    story.pass_seconds(300)
    version = story.store.version

    for name in ("member1", "member2", "member3"):
        story.store.mark("cluster_taints", [story.cluster(name).ref])
    story.pass_seconds(60)

    assert story.store.version == version


def test_no_execute_of_a_human_is_noticed_without_any_policy() -> None:
    story = fleet()
    story.taint("member2", no_execute(at=START + timedelta(seconds=5)))
    assert shown(story, "member2") == {"gone:NoExecute"}

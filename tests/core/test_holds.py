"""What holds an eviction although tokens are available: which holds, windows and clusters, and in which words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.apimachinery.meta import Condition
from controlplane.clusters.taints import BY_DELETION, Identity, Ownership, with_owned
from controlplane.eviction.holds import Holds, manual_hold_reason
from controlplane.eviction.operator_orders import HOLD, Order
from controlplane.kinds.cluster import FLAPPING, Cluster
from controlplane.kinds.rows import HELD_BY_HAND, MAINTENANCE, ON_HOLD, UNSTEADY, Eviction, Judgement
from tests.builders.objects import START, binding, eviction, no_execute
from tests.builders.objects import cluster as stored
from tests.builders.placements import duplicated
from tests.core.test_eviction_steering import hold, window

LATER = START + timedelta(seconds=60)
WEB = binding("web", duplicated(), on={"member1": 2})
OURS, ALSO_OURS, THEIRS = ("gone", "NoExecute"), ("full", "NoExecute"), ("theirs", "NoExecute")


def row(*evicting: Identity, staying: tuple[Identity, ...] = ()) -> Eviction:
    """Return the row of an eviction that these taints order; others were judged and let the copy stay."""
    judged = [Judgement(key, effect, START, due_at=START) for key, effect in evicting]
    judged += [Judgement(key, effect, START) for key, effect in staying]
    return eviction(WEB, judged=tuple(judged))


def cluster(**owners: Ownership) -> Cluster:
    """Return member1, which flaps, with taints of these owners by key."""
    taints = tuple(no_execute(key) for key in owners)
    made = with_owned(stored("member1"), taints, {(key, "NoExecute"): one for key, one in owners.items()})
    return made.with_status(conditions=(Condition(FLAPPING, "True", "Flapping", "6 changes within 600 s"),))


POLICYS = {"gone": Ownership({"ClusterTaintPolicy/a": "rule"}), "full": Ownership({"ClusterTaintPolicy/b": "rule"})}
UNSTABLE = (UNSTEADY, "cluster member1 is flapping: 6 changes within 600 s")
FLAPS = Holds(flapping={"member1": frozenset()})


@pytest.mark.parametrize(
    ("evicting", "staying", "why"),
    [
        pytest.param((OURS,), (), UNSTABLE, id="a taint of a policy"),
        pytest.param((OURS, ALSO_OURS), (), UNSTABLE, id="all taints of policies"),
        pytest.param((OURS, THEIRS), (), ("", ""), id="a user has added a taint too"),
        pytest.param((THEIRS,), (), ("", ""), id="a taint of a user"),
        pytest.param((OURS,), (THEIRS,), UNSTABLE, id="the taint of a user lets the copy stay"),
        pytest.param((), (OURS,), ("", ""), id="no taint evicts"),
    ],
)
def test_a_flapping_cluster_keeps_what_only_taints_of_policies_evict(
    evicting: tuple[Identity, ...], staying: tuple[Identity, ...], why: tuple[str, str]
) -> None:
    assert FLAPS.why(row(*evicting, staying=staying), WEB, cluster(**POLICYS), now=LATER) == why


@pytest.mark.parametrize(
    "owner",
    [Ownership({BY_DELETION: "rule"}), Ownership({"ClusterTaintPolicy/a": "rule"}, flapping=True)],
    ids=["the cluster is being deleted", "a policy about flapping"],
)
def test_a_flapping_cluster_is_left_for_a_deletion_and_for_a_policy_about_flapping(owner: Ownership) -> None:
    assert FLAPS.why(row(OURS), WEB, cluster(gone=owner), now=LATER) == ("", "")


def test_a_cluster_that_does_not_flap_keeps_nothing() -> None:
    others = Holds(flapping={"member2": frozenset()})

    assert others.why(row(OURS), WEB, cluster(**POLICYS), now=LATER) == ("", "")


def test_a_flapping_cluster_without_the_condition_is_named_without_a_message() -> None:
    quiet = cluster(**POLICYS).with_status(conditions=())

    assert FLAPS.why(row(OURS), WEB, quiet, now=LATER) == (UNSTEADY, "cluster member1 is flapping")


def test_a_maintenance_window_is_named_with_its_end_and_a_hold_with_its_author() -> None:
    in_window, on_hold = Holds(windows=(window("member1"),)), Holds(holds=(hold(who="ana"),))

    said = "cluster member1 is in MaintenanceWindow work until 2026-01-01T00:10:00Z: new kernel"
    assert in_window.why(row(OURS), WEB, stored("member1"), now=LATER) == (MAINTENANCE, said)
    assert on_hold.why(row(OURS), WEB, stored("member1"), now=LATER) == (
        ON_HOLD,
        "EvictionHold stop (ana): wait for us",
    )
    anonymous = Holds(holds=(hold(),)).why(row(OURS), WEB, stored("member1"), now=LATER)
    assert anonymous == (ON_HOLD, "EvictionHold stop: wait for us")


@pytest.mark.parametrize(("by", "author"), [("ana", "ana"), ("", "an unknown user")])
def test_a_hold_order_is_reported_with_its_author(by: str, author: str) -> None:
    order = Order(HOLD, "we are releasing", by, START)

    assert manual_hold_reason(order) == (HELD_BY_HAND, f"held by {author}: we are releasing")


def test_the_digest_changes_with_what_is_open_and_is_empty_without_any() -> None:
    kinds = [Holds(), Holds(holds=(hold(),)), Holds(windows=(window("member1"),)), FLAPS]

    digests = [one.digest(now=LATER) for one in kinds]

    assert digests[0] == ""
    assert len(set(digests)) == len(kinds)
    assert Holds(windows=(window("member1", until=30),)).digest(now=LATER) == ""


def test_the_next_change_is_the_next_moment_at_which_a_hold_or_window_begins_or_ends() -> None:
    later = Holds(holds=(hold(expires_at=START + timedelta(seconds=300)),), windows=(window("member1", begins=90),))

    assert later.next_change(now=START) == START + timedelta(seconds=90)
    assert later.next_change(now=START + timedelta(seconds=90)) == START + timedelta(seconds=300)
    assert later.next_change(now=START + timedelta(seconds=300)) == START + timedelta(seconds=600)
    assert later.next_change(now=START + timedelta(seconds=600)) is None

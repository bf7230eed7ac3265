"""Which copies are removed late, and what keeps them: the last healthy copy stays [returning-copies]."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import (
    BEFORE_FAILOVER_ANNOTATION,
    LEFTOVER_ANNOTATION,
    REDUCED_ANNOTATION,
    TEMPLATE_UID_ANNOTATION,
)
from controlplane.eviction.directly import DIRECTLY_WAITING
from controlplane.eviction.leftovers import (
    LateRemoval,
    as_leftover,
    decide_late_removal,
    is_late_removal,
    is_leftover,
    may_be_removed,
    may_be_target_again,
    with_reduction_time,
    without_leftover_mark,
)
from controlplane.eviction.purge import with_task
from controlplane.kinds.binding import (
    SCHEDULED,
    AggregatedStatusItem,
    Binding,
    BindingSnapshot,
    ObjectReference,
    TargetCluster,
    origin,
)
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY
from controlplane.kinds.work import (
    APPLIED_FAILED,
    CLEANUP_FAILED,
    REPLICAS_KEPT,
    ManifestStatus,
    ResourceIdentifier,
    Work,
)
from tests.builders.objects import START, applied, binding, cluster, leaving, no_execute, work
from tests.builders.placements import by_room, duplicated

LATER = START + timedelta(minutes=5)
FLEET = {f"member{number}": cluster(f"member{number}") for number in (1, 2, 3)}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def copy(
    *, wants: int = 2, ready: int | None = None, deleted: bool = False, on: str = "member1", **annotations: str
) -> Work:
    """A Work that requests replicas on a cluster, with what the member reported as ready; None: no report."""
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": wants}}
    made = work(on=on, manifest=manifest, annotations=annotations, deletion_timestamp=START if deleted else None)
    return made if ready is None else reported(made, {"readyReplicas": ready})


def reported(one: Work, *statuses: dict[str, Any] | None) -> Work:
    identity = ResourceIdentifier(kind="Deployment", name="web")
    return one.with_status(manifest_statuses=tuple(ManifestStatus(identity, status) for status in statuses))


def failed(one: Work, reason: str) -> Work:
    return one.with_status(conditions=(applied("False", reason),))


# The mark


def test_a_mark_is_put_on_and_taken_off_and_other_annotations_stay() -> None:
    plain = copy(note="kept")

    marked = as_leftover(plain)

    assert (is_leftover(plain), is_leftover(marked)) == (False, True)
    assert marked.metadata.annotations == {"note": "kept", LEFTOVER_ANNOTATION: "true"}
    assert without_leftover_mark(marked).metadata.annotations == {"note": "kept"}
    assert without_leftover_mark(plain) is plain


# The time of a reduction


@pytest.mark.parametrize(
    ("before", "after", "annotation"),
    [
        (3, 2, "2026-01-01T00:05:00Z"),
        (2, 3, None),  # more replicas end an earlier reduction
        (2, 2, "earlier"),
        (None, 2, "earlier"),
        (2, None, "earlier"),
        (None, None, "earlier"),
    ],
)
def test_a_lower_number_of_replicas_is_noted_with_its_time(
    before: int | None, after: int | None, annotation: str | None
) -> None:
    one = copy(**{REDUCED_ANNOTATION: "earlier", "note": "kept"})

    changed = with_reduction_time(one, before=before, after=after, now=LATER)

    assert changed.metadata.annotations.get(REDUCED_ANNOTATION) == (
        f"{LATER:%Y-%m-%dT%H:%M:%SZ}" if annotation not in (None, "earlier") else annotation
    )
    assert changed.metadata.annotations["note"] == "kept"
    assert (changed is one) == (annotation == "earlier")


# Which removals are late


def back(seconds: float) -> Cluster:
    """A cluster whose condition Ready turned at this time."""
    return cluster("member1", at=at(seconds))


TERMINATING = back(60).with_meta(deletion_timestamp=START)
DELETED = copy(deleted=True)


@pytest.mark.parametrize(
    ("one", "of", "late"),
    [
        # A deletion that began at START.
        (DELETED, back(-1), False),
        (DELETED, back(0), True),
        (DELETED, back(60), True),
        (DELETED, cluster("member1", ready=""), False),
        (as_leftover(DELETED), back(-1), True),
        (failed(DELETED, CLEANUP_FAILED), back(-1), True),
        (failed(DELETED, APPLIED_FAILED), back(-1), False),
        (DELETED, None, False),
        (as_leftover(DELETED), None, False),
        (as_leftover(DELETED), TERMINATING, False),
        # Fewer replicas since START.
        (copy(ready=3, **{REDUCED_ANNOTATION: "2026-01-01T00:00:00Z"}), back(-1), False),
        (copy(ready=3, **{REDUCED_ANNOTATION: "2026-01-01T00:00:00Z"}), back(60), True),
        (copy(ready=2, **{REDUCED_ANNOTATION: "2026-01-01T00:00:00Z"}), back(60), False),
        (copy(ready=1, **{REDUCED_ANNOTATION: "2026-01-01T00:00:00Z"}), back(60), False),
        (copy(ready=3, **{REDUCED_ANNOTATION: "2026-01-01T00:00:00"}), back(60), False),  # without a zone: not ours
        (copy(ready=3, **{REDUCED_ANNOTATION: "yesterday"}), back(60), False),
        (copy(ready=3), back(60), False),
        (failed(copy(ready=3), APPLIED_FAILED), back(-1), True),
        (failed(copy(ready=3), REPLICAS_KEPT), back(-1), True),
        (failed(copy(ready=3), CLEANUP_FAILED), back(-1), False),
        (failed(copy(ready=2), APPLIED_FAILED), back(-1), False),
        (failed(copy(), APPLIED_FAILED), back(-1), False),
        (failed(copy(ready=3), APPLIED_FAILED), TERMINATING, False),
        (failed(copy(ready=3), APPLIED_FAILED), None, False),
    ],
)
def test_a_removal_is_late_once_the_cluster_came_back_or_a_try_failed(
    one: Work, of: Cluster | None, *, late: bool
) -> None:
    assert is_late_removal(one, of) is late


@pytest.mark.parametrize(
    ("statuses", "late"),
    [([{"readyReplicas": 1}, {"readyReplicas": 3}], True), ([{"readyReplicas": "3"}], False), ([None, {}], False)],
)
def test_the_largest_number_that_a_member_reports_counts(statuses: list[Any], *, late: bool) -> None:
    assert is_late_removal(failed(reported(copy(), *statuses), APPLIED_FAILED), back(-1)) is late


@pytest.mark.parametrize(
    "manifest",
    [
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "Pod"},  # it counts as a replica, and has no field that could be lowered
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": "unreadable"}},
    ],
)
def test_what_has_no_number_of_replicas_to_lower_is_never_reduced(manifest: dict[str, Any]) -> None:
    one = reported(work(manifest={**manifest, "metadata": {"name": "web"}}), {"readyReplicas": 3})

    assert not is_late_removal(failed(one, APPLIED_FAILED), back(-1))


@pytest.mark.parametrize(
    ("one", "of", "may"),
    [(DELETED, back(0), True), (copy(), back(0), False), (DELETED, None, False), (DELETED, TERMINATING, False)],
)
def test_a_copy_that_is_being_deleted_may_be_wanted_again_while_its_cluster_stays(
    one: Work, of: Cluster | None, *, may: bool
) -> None:
    assert may_be_target_again(one, of) is may


# What keeps a copy

GONE = binding("web", duplicated(), on={"member2": 2})  # it has left member1, and is healthy on member2
DIVIDED = binding("web", by_room(), on={"member1": 2, "member2": 2}, replicas=4)


def unwell(one: Binding, *, on: str = "member2") -> Binding:
    items = tuple(
        replace(item, health="Unhealthy") if item.cluster_name == on else item for item in one.status.aggregated_status
    )
    return one.with_status(aggregated_status=items)


def seen(one: Binding) -> Binding:
    """The binding after the scheduler has looked at it."""
    return one.with_status(scheduler_observed_generation=one.metadata.generation)


def refused_later(one: Binding) -> Binding:
    """The binding after a user has asked for more than fits."""
    conditions = (Condition(SCHEDULED, "False", "QuotaExceeded"),)
    return one.with_spec(replicas=9).with_status(conditions=conditions)


def moved(*, placed: bool) -> Binding:
    """A binding that left member1 in a failover. `placed`: the scheduler has placed all its replicas again."""
    old = binding("web", duplicated(), on={"member1": 2})
    left = with_task(old, "member1", mode=GRACEFULLY, reason="", producer="", message="", now=START)
    gone = origin.with_departures(left, old, now=START)
    now_on = gone.with_spec(clusters=GONE.spec.clusters).with_status(aggregated_status=GONE.status.aggregated_status)
    return (seen(now_on) if placed else now_on).with_spec(graceful_eviction_tasks=())


def given_up(*, placed: bool, known: bool = True) -> Binding:
    """A binding that was on member1 and member3, lost member3, and then went to member2 only.

    `known`: it is noted with which generation it left member3.
    """
    old = binding("web", duplicated(), on={"member1": 2, "member3": 2})
    left = with_task(old, "member3", mode=GRACEFULLY, reason="", producer="", message="", now=START)
    gone = origin.with_departures(left, old, now=START)
    now_on = gone.with_spec(clusters=GONE.spec.clusters).with_status(aggregated_status=GONE.status.aggregated_status)
    if not known:
        noted = json.loads(now_on.metadata.annotations[BEFORE_FAILOVER_ANNOTATION])
        text = json.dumps({key: value for key, value in noted.items() if key not in ("generations", "had")})
        now_on = now_on.with_meta(annotations={BEFORE_FAILOVER_ANNOTATION: text})
    return (seen(now_on) if placed else now_on).with_spec(graceful_eviction_tasks=())


REMOVED, KEPT = LateRemoval(wanted=False, may_go=True), LateRemoval(wanted=False, may_go=False)
WANTED_ELSEWHERE = (BindingSnapshot("default", "parent", GONE.spec.clusters),)
PENDING = GONE.with_meta(generation=2)
WAITS_FOR_ANOTHER = DIVIDED.with_status(
    conditions=(Condition(DIRECTLY_WAITING, "True", "SourceUnreachable", "cluster member3 cannot be reached"),)
)
PARTS = AggregatedStatusItem("member2", {"readyReplicas": 1}, applied=True, health="Healthy")


@pytest.mark.parametrize(
    ("one", "more", "then"),
    [
        (GONE, {}, REMOVED),
        (unwell(GONE), {}, KEPT),
        (unwell(GONE), {"overdue": False}, REMOVED),
        (GONE, {"needed": True}, KEPT),
        (GONE, {"needed": True, "overdue": False}, REMOVED),
        (PENDING, {}, KEPT),
        (refused_later(GONE), {}, REMOVED),  # it was never evicted: the scheduler has given up the cluster
        (refused_later(unwell(GONE)), {}, KEPT),
        (refused_later(moved(placed=False)), {}, KEPT),
        (refused_later(moved(placed=True)), {}, REMOVED),
        (refused_later(unwell(moved(placed=True))), {}, KEPT),
        (moved(placed=True).with_spec(replicas=9), {}, KEPT),  # the scheduler has not looked at it yet
        (refused_later(given_up(placed=True)), {}, REMOVED),
        (refused_later(unwell(given_up(placed=True))), {}, KEPT),
        (refused_later(given_up(placed=False)), {}, KEPT),
        (refused_later(given_up(placed=True, known=False)), {}, KEPT),
        (given_up(placed=True).with_spec(replicas=9), {}, KEPT),
        (PENDING.with_spec(placement=None, required_by=WANTED_ELSEWHERE), {}, REMOVED),
        (GONE.with_status(aggregated_status=(PARTS,)), {}, KEPT),
        (seen(GONE.with_spec(clusters=())), {}, KEPT),
        (seen(GONE.with_spec(clusters=(), required_by=WANTED_ELSEWHERE)), {}, REMOVED),
        (seen(GONE.with_spec(graceful_eviction_tasks=(leaving("member1", suppress_deletion=True),))), {}, KEPT),
        (seen(GONE.with_spec(graceful_eviction_tasks=(leaving("member1", GRACEFULLY),))), {}, REMOVED),
        # Directly removes the old copy before the new one starts, so its health says nothing.
        (seen(unwell(GONE).with_spec(graceful_eviction_tasks=(leaving("member1", DIRECTLY),))), {}, REMOVED),
        (seen(unwell(GONE).with_spec(graceful_eviction_tasks=(leaving("member2", DIRECTLY),))), {}, KEPT),
        (unwell(GONE).with_meta(deletion_timestamp=START), {}, REMOVED),
        (DIVIDED, {}, LateRemoval(wanted=True, may_go=True)),
        (unwell(DIVIDED), {}, LateRemoval(wanted=True, may_go=False)),
        # No Work would take over the copy, so it could not be removed if its cluster is no target later.
        (WAITS_FOR_ANOTHER, {}, KEPT),
    ],
)
def test_a_copy_is_removed_once_all_wanted_copies_are_healthy(
    one: Binding, more: dict[str, bool], then: LateRemoval
) -> None:
    assert decide_late_removal(one, DELETED, "member1", FLEET, **more) == then


@pytest.mark.parametrize(
    ("placed", "reported", "may_go"),
    [
        (5, 5, False),
        (5, 7, False),  # a rolling update runs new pods beside the old ones
        (7, 5, False),
        (7, 7, True),  # two replicas of member1 run on member2
    ],
)
def test_a_copy_that_leaves_directly_goes_late_only_if_replicas_of_it_run_elsewhere(
    placed: int, reported: int, *, may_go: bool
) -> None:
    """The scheduler has found no place for all of them."""
    old = binding("web", by_room(), on={"member1": 5, "member2": 5}, replicas=10)
    left = with_task(old, "member1", mode=DIRECTLY, reason="", producer="", message="", now=START)
    one = origin.with_departures(left, old, now=START).with_spec(clusters=(TargetCluster("member2", placed),))
    seen_there = AggregatedStatusItem("member2", {"replicas": reported}, applied=True, health="Healthy")

    found = decide_late_removal(one.with_status(aggregated_status=(seen_there,)), DELETED, "member1", FLEET)

    assert found == LateRemoval(wanted=False, may_go=may_go)


NOWHERE = GONE.with_spec(clusters=())
NO_ROOM = NOWHERE.with_status(conditions=(Condition(SCHEDULED, "False", "QuotaExceeded"),))
NO_PLACE = NOWHERE.with_status(conditions=(Condition(SCHEDULED, "False", "NoClusterFit"),))


@pytest.mark.parametrize(
    ("one", "uid", "more", "then"),
    [
        (NO_ROOM, "of-a-template-before", {}, REMOVED),
        (NO_ROOM, "of-a-template-before", {"needed": True}, KEPT),
        (NO_ROOM, NO_ROOM.spec.resource.uid, {}, KEPT),  # the last copy of the template that there is
        (NO_ROOM, None, {}, KEPT),
        (NO_PLACE, "of-a-template-before", {}, KEPT),  # its cluster may become a target
        (unwell(NO_ROOM).with_spec(required_by=WANTED_ELSEWHERE), "of-a-template-before", {}, KEPT),
    ],
)
def test_a_copy_of_a_deleted_template_goes_if_a_quota_refuses_the_one_made_again(
    one: Binding, uid: str | None, more: dict[str, bool], then: LateRemoval
) -> None:
    metadata = {"name": "web"} if uid is None else {"name": "web", "annotations": {TEMPLATE_UID_ANNOTATION: uid}}
    old = work(on="member1", manifest={**DELETED.manifest, "metadata": metadata}, deletion_timestamp=START)

    assert decide_late_removal(one, old, "member1", FLEET, **more) == then


@pytest.mark.parametrize(
    ("api_version", "kind", "uid", "wanted"),
    [
        ("batch/v1", "Job", "of-a-template-before", False),
        ("argoproj.io/v1alpha1", "Workflow", "of-a-template-before", False),
        ("v1", "Pod", "of-a-template-before", False),
        ("apps/v1", "Deployment", "of-a-template-before", True),
        ("batch/v1", "Job", "of-this-one", True),
        ("batch/v1", "Job", None, True),  # of an earlier version of this program
    ],
)
def test_a_job_that_was_made_again_does_not_take_over_the_one_that_was_deleted(
    api_version: str, kind: str, uid: str | None, *, wanted: bool
) -> None:
    """It would be complete before it has run: its cluster was away while the other one was deleted."""
    resource = ObjectReference(api_version, kind, "web", "default", uid="of-this-one")
    again = seen(binding("web", duplicated("member1"), on={"member1": 1})).with_spec(resource=resource)
    notes = {} if uid is None else {TEMPLATE_UID_ANNOTATION: uid}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "annotations": notes}}
    old = work(on="member1", manifest=manifest, deletion_timestamp=START)

    found = decide_late_removal(again, old, "member1", FLEET)

    assert found.wanted == wanted
    assert wanted or found == REMOVED


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (FLEET["member2"], True),
        (cluster("member2", ready="False"), False),
        (cluster("member2", ready="Unknown"), False),
        (cluster("member2", taints=[no_execute()]), True),
        (None, False),
    ],
)
def test_a_copy_on_a_cluster_that_does_not_answer_replaces_nothing(other: Cluster | None, *, may: bool) -> None:
    assert may_be_removed(GONE, "member1", {} if other is None else {"member2": other}) is may


def test_a_copy_of_a_workload_that_is_scaled_to_zero_is_removed_once_the_scheduler_has_seen_that() -> None:
    stopped = DIVIDED.with_spec(replicas=0, clusters=())

    assert not may_be_removed(stopped, "member1", FLEET)
    assert may_be_removed(seen(stopped), "member1", FLEET)
    assert not may_be_removed(seen(DIVIDED.with_spec(clusters=())), "member1", FLEET)  # no cluster was found


@pytest.mark.parametrize(
    ("one", "wants", "ready", "keeps"),
    [
        (unwell(DIVIDED), 2, 3, 3),
        (unwell(DIVIDED), 2, 9, 4),  # never more than the workload asks for
        (unwell(DIVIDED), 2, 2, 0),
        (unwell(DIVIDED), 2, 1, 0),
        (unwell(DIVIDED), 2, None, 0),
        (unwell(DIVIDED, on="member1"), 2, 3, 0),  # its own health does not matter
        (DIVIDED, 2, 3, 0),
        (seen(unwell(DIVIDED).with_spec(placement=duplicated())), 2, 3, 0),
        (seen(unwell(DIVIDED).with_spec(placement=None)), 2, 3, 0),
    ],
)
def test_ready_replicas_stay_until_the_other_targets_are_healthy(
    one: Binding, wants: int, ready: int | None, keeps: int
) -> None:
    found = decide_late_removal(one, copy(wants=wants, ready=ready), "member1", FLEET)

    assert found == LateRemoval(wanted=True, may_go=False, keeps=keeps)


def test_the_names_of_clusters_have_no_order() -> None:
    on_first = binding("web", by_room(), on={"member1": 2, "member3": 2}, replicas=4)

    assert decide_late_removal(GONE, DELETED, "member3", FLEET) == REMOVED
    assert decide_late_removal(unwell(on_first, on="member1"), copy(ready=3), "member3", FLEET).keeps == 3

"""Works of a binding that moves: how long the old copy stays, and when the new one starts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import (
    DIRECTLY_UNREACHABLE_ANNOTATION,
)
from controlplane.kinds.binding import GracefulEvictionTask, TargetCluster
from controlplane.kinds.policy import (
    DIRECTLY,
    GRACEFULLY,
    SuspendClusters,
    Suspension,
)
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders.objects import cluster, leaving, policy
from tests.builders.templates import deployment
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story


@pytest.mark.parametrize(
    "suspension",
    [Suspension(dispatching=True), Suspension(dispatching_on_clusters=SuspendClusters(("member2",)))],
    ids=["all", "new"],
)
def test_a_copy_stays_while_the_one_that_replaces_it_is_not_sent(suspension: Suspension) -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3)
    story.report("member1", readyReplicas=3)

    live: Any = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=suspension))
    story.place(web, member2=3)
    scheduled(story, web)
    story.later(seconds=60)
    assert story.works()["member1"].metadata.deletion_timestamp is None

    live = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=None))
    scheduled(story, web)
    assert story.works()["member1"].metadata.deletion_timestamp is None
    story.report("member2", readyReplicas=3)
    story.later(seconds=60)
    assert story.works()["member1"].metadata.deletion_timestamp is not None


def test_a_copy_that_was_sent_before_dispatching_was_suspended_keeps_no_other() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3, member2=3)
    story.report("member1", readyReplicas=3)
    story.report("member2", readyReplicas=3)
    live: Any = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=Suspension(dispatching=True)))

    story.place(web, member2=3)
    scheduled(story, web)
    story.later(seconds=30)

    assert story.works()["member1"].metadata.deletion_timestamp is not None


@pytest.mark.parametrize("is_lost", [False, True], ids=["", "lost"])
def test_not_more_replicas_stay_than_are_not_sent(*, is_lost: bool) -> None:
    """Two clusters have more than they shall have, and one copy was never sent. A user scales the workload down."""
    withheld = Suspension(dispatching_on_clusters=SuspendClusters(("member2",)))
    web, all_ = deployment(replicas=9), policy("all", placement=DIVIDED_PLACEMENT).with_spec(suspension=withheld)
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3, member2=3, member3=3)
    for name in ("member1", "member3"):
        story.report(name, readyReplicas=3)
    if is_lost:
        lost: Any = story.store.objects[MEMBERS[0].ref]
        story.edit(lost.with_status(conditions=(Condition("Ready", "Unknown", last_transition_time=story.now),)))

    story.place(web, member1=1, member2=1, member3=1)

    asked = {name: work.manifest["spec"]["replicas"] for name, work in story.works().items()}
    assert asked == {"member1": 1 if is_lost else 2, "member2": 1, "member3": 2 if is_lost else 1}
    assert story.again() == 0


def test_replicas_stay_while_those_that_replace_them_are_not_sent() -> None:
    def asked() -> dict[str, int]:
        return {name: work.manifest["spec"]["replicas"] for name, work in sorted(story.works().items())}

    web, all_ = deployment(replicas=4), policy("all", placement=DIVIDED_PLACEMENT)
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3, member2=1)
    story.report("member1", readyReplicas=3)
    story.report("member2", readyReplicas=1)
    live: Any = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=Suspension(dispatching_on_clusters=SuspendClusters(("member2",)))))

    story.place(web, member1=1, member2=3)
    assert asked() == {"member1": 3, "member2": 3}
    assert story.again() == 0
    story.place(web, member1=1, member2=2)
    assert asked() == {"member1": 2, "member2": 2}, "one of the two of member2 is missing"
    story.place(web, member1=1, member2=1)
    assert asked() == {"member1": 1, "member2": 1}, "fewer replicas do not wait"

    story.place(web, member1=3, member2=1)
    story.place(web, member1=1, member2=3)
    live = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=None))
    assert asked() == {"member1": 1, "member2": 3}


@pytest.mark.parametrize(("report", "kept"), [(None, 3), ({}, 1), ({"readyReplicas": 0}, 3)])
def test_replicas_stay_while_a_copy_that_replaces_them_was_never_sent_or_does_not_run(
    report: dict[str, int] | None, kept: int
) -> None:
    """A copy that is healthy and counts no replicas runs all of them."""
    withheld = Suspension(dispatching_on_clusters=SuspendClusters(("member2",)))
    web, all_ = deployment(replicas=3), policy("all", placement=DIVIDED_PLACEMENT).with_spec(suspension=withheld)
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3) if report is None else story.place(web, member1=3, member2=2)
    story.report("member1", readyReplicas=3)
    if report is not None:
        story.report("member2", **report)

    story.place(web, member1=1, member2=2)

    assert story.works()["member1"].manifest["spec"]["replicas"] == kept


def test_replicas_that_run_on_a_suspended_cluster_anyway_count_before_others_are_kept() -> None:
    withheld = Suspension(dispatching_on_clusters=SuspendClusters(("member2", "member3")))
    web, all_ = deployment(replicas=6), policy("all", placement=DIVIDED_PLACEMENT)
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3, member2=3)
    for name in ("member1", "member2"):
        story.report(name, readyReplicas=3)
    live: Any = story.store.objects[all_.ref]
    story.edit(live.with_spec(suspension=withheld))

    story.place(web, member1=1, member2=1, member3=2)

    assert story.works()["member1"].manifest["spec"]["replicas"] == 1, "three run on member2"


def scheduled(story: Story, web: Template) -> None:
    """Let the scheduler have looked at the binding as it is now."""
    binding = story.binding(web)
    assert binding is not None
    story.edit(binding.with_status(scheduler_observed_generation=binding.metadata.generation))


def test_graceful_tasks_keep_the_old_copy_while_the_new_one_starts() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.place(web, (leaving("member1"),), member2=3)

    assert story.works()["member1"].metadata.deletion_timestamp is None
    assert set(story.works()) == {"member1", "member2"}


LEAVES = {
    "gracefully": ((leaving("member1"),), {}, {}, False),
    "with fewer replicas wanted": ((leaving("member1"),), {}, {"replicas": 2}, True),
    "at once": ((leaving("member1", DIRECTLY),), {}, {}, True),
    "without a task": ((), {}, {}, True),
    "for a cluster": ((leaving("member1"),), {"member2": 3}, {}, True),
}


@pytest.mark.parametrize("row", LEAVES)
def test_a_binding_that_only_leaves_its_last_cluster_is_not_looked_at_until_it_is_placed(row: str) -> None:
    tasks, targets, spec, asked = LEAVES[row]
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    binding = story.binding(web)
    assert binding is not None

    story.store.put(
        binding.with_spec(
            clusters=tuple(TargetCluster(name, count) for name, count in targets.items()),
            graceful_eviction_tasks=tasks,
            **spec,
        ),
        binding,
    )

    assert bool(story.store.due.get("works")) is asked
    works_before = story.works()
    story.settle()
    if not asked:
        assert story.works() == works_before
        assert story.again() == 0


def test_directly_starts_the_new_copy_only_when_the_old_one_is_gone() -> None:
    """The failover guide: the old one is gone first."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    assert story.works()["member1"].metadata.deletion_timestamp is not None
    assert "member2" not in story.works()

    story.remove_from_member("member1")
    assert set(story.works()) == {"member2"}


def test_directly_does_not_freeze_the_other_clusters_of_a_binding() -> None:
    """[directly-unreachable], against the original, which syncs nothing at all."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3, member2=3)
    story.place(web, (leaving("member1", DIRECTLY),), member2=3, member3=3)

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "paused": True}}))

    assert story.works()["member2"].manifest["spec"]["paused"] is True
    assert "member3" not in story.works()


def test_directly_lets_no_other_cluster_take_over_replicas_before_the_old_copy_is_gone() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=2, member2=1)

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    assert story.works()["member2"].manifest["spec"]["replicas"] == 1

    story.remove_from_member("member1")
    assert story.works()["member2"].manifest["spec"]["replicas"] == 3


def unreachable(**settings: str) -> tuple[Story, Template]:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web, settings=Settings(**settings))  # type: ignore[arg-type]
    story.place(web, member1=3)
    lost = story.store.objects[MEMBERS[0].ref]
    story.edit(lost.with_status(conditions=cluster("member1", ready="False").status.conditions))
    return story, web


def test_directly_waits_for_a_cluster_that_cannot_be_reached_and_says_so() -> None:
    story, web = unreachable()

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    story.later(hours=1)

    assert "member2" not in story.works()
    assert "member1 cannot be reached" in story.events("DirectlyWaiting")[0]


def test_an_edit_takes_no_replicas_from_a_copy_that_waits_to_grow_while_its_pods_are_replaced() -> None:
    """A Deployment with the strategy Recreate reports no replicas for some seconds, and is edited twice meanwhile."""
    web = deployment(replicas=4)
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=1, member2=3)
    lost: Any = story.store.objects[MEMBERS[0].ref]
    story.edit(lost.with_status(conditions=cluster("member1", ready="False").status.conditions))
    story.place(web, (leaving("member1", DIRECTLY),), member2=4)
    assert story.works()["member2"].manifest["spec"]["replicas"] == 3
    story.report("member2", replicas=0)
    copy = story.works()["member2"]
    done = Condition("Applied", "True", "AppliedSuccessful", observed_generation=copy.metadata.generation)
    story.edit(copy.with_status(conditions=(done,)))

    for seconds in (1, 2):
        live = story.template(web)
        spec = {**live.spec, "minReadySeconds": seconds}
        story.edit(live.with_content({**live.content, "spec": spec}).with_meta(generation=1 + seconds))

    copy = story.works()["member2"]
    assert copy.manifest["spec"]["minReadySeconds"] == 2
    assert copy.manifest["spec"]["replicas"] == 3


def test_a_copy_that_waits_for_its_cluster_is_still_sent_when_another_one_begins_to_leave_directly() -> None:
    """It replaces nothing. An edit is what makes it start, for example if its member has refused the first version."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3, member2=3)
    story.later(seconds=60)
    lost: Any = story.store.objects[MEMBERS[0].ref]
    story.edit(lost.with_status(conditions=cluster("member1", ready="False").status.conditions))

    story.place(web, (replace(leaving("member1", DIRECTLY), creation_timestamp=story.now),), member2=3)
    live = story.template(web)
    story.edit(live.with_content({**live.content, "spec": {**live.spec, "minReadySeconds": 7}}))

    copy = story.works()["member2"]
    assert (copy.spec.suspend_dispatching, copy.manifest["spec"]["minReadySeconds"]) == (False, 7)


def test_directly_goes_on_where_the_settings_say_so() -> None:
    story, web = unreachable(directly_unreachable="Proceed")

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)

    assert "member2" in story.works()


def test_directly_goes_on_after_the_time_the_policy_gives_it() -> None:
    story, web = unreachable()
    patient = story.store.objects[policy("all").ref]
    story.edit(patient.with_meta(annotations={DIRECTLY_UNREACHABLE_ANNOTATION: "After=300"}))

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    story.later(seconds=299)
    assert "member2" not in story.works()
    story.later(seconds=31)

    assert "member2" in story.works()


@pytest.mark.parametrize(
    ("task", "targets", "carried"),
    [
        (leaving("member1", DIRECTLY, preserved_label_state={"job-id": "7"}), ("member2",), True),
        (leaving("member1", GRACEFULLY, preserved_label_state={"job-id": "7"}), ("member2",), False),
        (leaving("member1", DIRECTLY, preserved_label_state={"job-id": "7"}), ("member2", "member3"), False),
        (
            leaving("member1", DIRECTLY, preserved_label_state={"job-id": "7"}, clusters_before_failover=("member2",)),
            ("member2",),
            False,
        ),
    ],
    ids=["one to one", "gracefully", "to two", "back again"],
)
def test_state_is_carried_on_the_first_create_the_target_sees(
    task: GracefulEvictionTask, targets: tuple[str, ...], carried: bool
) -> None:
    """[state-preservation], the failover guide: only Directly, only one cluster to one cluster."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)

    story.place(web, (task,), **dict.fromkeys(targets, 3))

    labels = story.works()["member2"].manifest["metadata"]["labels"]
    assert (labels.get("job-id") == "7") is carried


def test_events_are_forgotten_after_an_hour() -> None:
    story, web = unreachable()
    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    assert story.events("DirectlyWaiting")
    story.place(web, member1=3)

    story.later(minutes=59)
    assert story.events("DirectlyWaiting")
    story.later(minutes=10)

    assert not story.events("DirectlyWaiting")


@pytest.mark.parametrize("mode", [GRACEFULLY, DIRECTLY])
def test_a_workload_that_is_made_again_waits_until_a_cluster_that_answers_has_removed_the_old_copy(mode: str) -> None:
    """Whatever the settings say about clusters that cannot be reached."""
    web = deployment()
    settings = Settings(directly_unreachable="Proceed", no_execute_taint_eviction_purge_mode=mode)  # type: ignore[arg-type]
    story = Story(*MEMBERS, policy("all"), web, settings=settings)
    story.place(web, member1=3)

    story.delete(web)
    story.add(web.with_meta(uid="made-again"))
    story.later(seconds=60)
    old = story.binding(web)
    assert old is not None
    assert old.metadata.deletion_timestamp is not None

    story.remove_from_member("member1")
    story.later(seconds=60)
    new = story.binding(web)
    assert new is not None
    assert new.spec.resource.uid == "made-again"

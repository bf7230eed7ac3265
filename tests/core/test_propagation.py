"""From templates and policies to bindings and Works, and back (semantics 2.9, 2.11, 2.14; D11, D14, D15, D23)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane import works
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.policy import (
    DIRECTLY,
    DIVIDED,
    GRACEFULLY,
    Placement,
    ReplicaSchedulingStrategy,
    ResourceSelector,
    SchedulePriority,
    Suspension,
    Toleration,
)
from controlplane.kinds.template import Template
from controlplane.meta import condition
from controlplane.names import DIRECTLY_UNREACHABLE_ANNOTATION, SKIP_AUTO_PROPAGATION_LABEL
from controlplane.selectors import LabelSelector
from controlplane.settings import GATES, Settings
from tests.core.propagation_story import START, Story, cluster, deployment, namespace, policy

MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))
DIVIDED_PLACEMENT = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=DIVIDED))


def leaving(name: str, mode: str = GRACEFULLY, **more: object) -> GracefulEvictionTask:
    return GracefulEvictionTask(name, mode, creation_timestamp=START, **more)  # type: ignore[arg-type]


# Claims


def test_a_policy_claims_the_templates_there_are_and_makes_their_bindings() -> None:
    web, db = deployment("web"), deployment("db")
    story = Story(web, db)

    story.add(policy("all", propagate_deps=True))

    binding = story.binding(web)
    assert binding is not None
    assert story.binding(db) is not None
    assert binding.spec.replicas == 3
    assert binding.spec.propagate_deps
    assert binding.spec.replica_requirements is not None
    assert binding.spec.replica_requirements.resource_request == {"cpu": "1"}
    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "all"


def test_a_template_made_later_finds_the_policy_that_waits_for_it() -> None:
    story = Story(policy("all"))
    web = deployment()

    story.add(web)

    assert story.binding(web) is not None


def test_running_again_changes_nothing() -> None:
    web = deployment()
    story = Story(*MEMBERS, web, policy("all"), namespace("team"))
    story.place(web, member1=2, member2=1)
    story.report("member1", readyReplicas=2, replicas=2)

    assert story.again() == 0


@pytest.mark.parametrize(
    ("winner", "loser"),
    [
        (policy("a"), policy("b")),
        (policy("b", priority=1), policy("a")),
        (policy("b", ResourceSelector("apps/v1", "Deployment", name="web")), policy("a")),
        (
            policy("b", ResourceSelector("apps/v1", "Deployment", label_selector=LabelSelector({"app": "web"}))),
            policy("a"),
        ),
        (policy("z"), policy("a", namespace="", priority=100)),
    ],
    ids=["smaller name", "priority", "by name", "by label", "namespaced before cluster-scoped"],
)
def test_the_policy_that_ranks_first_wins(winner: object, loser: object) -> None:
    story = Story(winner, loser)  # type: ignore[arg-type]
    web = deployment()

    story.add(web)

    claims = story.template(web).metadata.annotations
    assert winner.metadata.name in claims.values()  # type: ignore[attr-defined]
    assert loser.metadata.name not in claims.values()  # type: ignore[attr-defined]


def test_a_claim_sticks_although_a_better_policy_comes() -> None:
    web = deployment()
    story = Story(policy("old"), web)

    story.add(policy("better", priority=10, preemption="Always"))

    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "old"


def test_preemption_takes_a_template_from_a_lower_priority_where_the_gate_is_on() -> None:
    web = deployment()
    story = Story(policy("old"), web, settings=Settings(feature_gates={**GATES, "PropagationPolicyPreemption": True}))

    story.add(policy("same", preemption="Always"))
    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "old"
    story.add(policy("better", priority=10, preemption="Always"))

    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "better"


def test_changing_the_claim_from_cluster_scoped_to_namespaced_leaves_one_claim() -> None:
    web, wide = deployment(), policy("wide", namespace="")
    story = Story(wide, web)
    story.add(policy("near"))
    assert "clusterpropagationpolicy.karmada.io/name" in story.template(web).metadata.annotations

    story.delete(wide)

    binding = story.binding(web)
    assert binding is not None
    for metadata in (story.template(web).metadata, binding.metadata):
        assert metadata.annotations["propagationpolicy.karmada.io/name"] == "near"
        assert "clusterpropagationpolicy.karmada.io/name" not in metadata.annotations
        assert "clusterpropagationpolicy.karmada.io/permanent-id" not in metadata.labels


def test_deleting_a_policy_takes_its_claims_away_and_leaves_placement_and_copies() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3)

    story.delete(all_)
    story.later(seconds=3)

    binding = story.binding(web)
    assert all_.ref not in story.store.objects
    assert binding is not None
    assert [one.name for one in binding.spec.clusters] == ["member1"]
    assert "propagationpolicy.karmada.io/permanent-id" not in binding.metadata.labels
    assert story.template(web).metadata.labels == {"app": "web"}
    assert set(story.works()) == {"member1"}


def test_editing_a_policy_moves_the_placement_of_what_it_claims_and_nothing_else() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    story.place(web, (leaving("member2"),), member1=3)
    before = story.binding(web)
    assert before is not None

    tolerant = Placement(cluster_tolerations=(Toleration(key="gpu", operator="Exists"),))
    story.edit(story.store.objects[all_.ref].with_spec(placement=tolerant))

    after = story.binding(web)
    assert after is not None
    assert after.spec.placement == tolerant
    assert after.metadata.generation == before.metadata.generation + 1
    assert after.spec.clusters == before.spec.clusters
    assert after.spec.graceful_eviction_tasks == before.spec.graceful_eviction_tasks


def test_a_policy_that_no_longer_selects_a_template_lets_it_go() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(all_, web)

    other = (ResourceSelector("apps/v1", "Deployment", name="other"),)
    story.edit(story.store.objects[all_.ref].with_spec(resource_selectors=other))

    assert "propagationpolicy.karmada.io/name" not in story.template(web).metadata.annotations
    assert story.binding(web) is not None


def test_a_status_that_comes_in_is_no_news_to_the_binding() -> None:
    web = deployment()
    story = Story(policy("all"), web)
    before = story.binding(web)

    stored = story.template(web)
    story.edit(Template(stored.api_version, stored.kind, stored.metadata, stored.content, {"replicas": 3}))
    story.again()

    assert story.binding(web) == before


@pytest.mark.parametrize("place", ["karmada-system", "karmada-es-member1", "kube-system"])
def test_reserved_and_skipped_namespaces_are_never_propagated(place: str) -> None:
    hidden = deployment(namespace=place)
    story = Story(policy("all", namespace=""))

    story.add(hidden)

    assert story.binding(hidden) is None


def test_a_lazy_policy_waits_for_the_user_to_touch_the_template() -> None:
    web, lazy = deployment(), policy("lazy", at=START + timedelta(seconds=60), activation_preference="Lazy")
    story = Story(web)

    story.add(lazy)
    assert story.template(web).metadata.annotations["propagationpolicy.karmada.io/name"] == "lazy"
    assert story.binding(web) is None

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "replicas": 5}}))
    binding = story.binding(web)
    assert binding is not None
    assert binding.spec.replicas == 5

    story.edit(story.store.objects[lazy.ref].with_spec(conflict_resolution="Overwrite"))
    assert story.binding(web) == binding


def test_a_template_made_under_a_lazy_policy_is_propagated_at_once() -> None:
    story = Story(policy("lazy", activation_preference="Lazy"))
    web = deployment()

    story.add(web)

    assert story.binding(web) is not None
    assert story.again() == 0


def test_a_priority_class_that_is_missing_is_said_and_found_once_it_is_there() -> None:
    urgent = SchedulePriority("KubePriorityClass", "urgent")
    web = deployment()
    story = Story(policy("all", schedule_priority=urgent), web)
    assert story.binding(web) is None
    assert "urgent" in story.events("ApplyPolicyFailed")[0]

    found = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    story.add(Template.fold(found))
    story.later(seconds=31)

    binding = story.binding(web)
    assert binding is not None
    assert binding.spec.schedule_priority is not None
    assert binding.spec.schedule_priority.priority == 7


def test_deleting_the_template_removes_binding_and_copies_in_order() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.delete(web)
    binding = story.binding(web)
    assert binding is not None
    assert binding.metadata.deletion_timestamp is not None
    assert story.works()["member1"].metadata.deletion_timestamp is not None

    story.remove_from_member("member1")
    assert story.binding(web) is None
    assert story.works() == {}


def test_a_template_made_anew_while_its_binding_goes_gets_a_binding_of_its_own() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    story.delete(web)

    story.add(deployment(uid="uid-second"))
    story.remove_from_member("member1")

    binding = story.binding(web)
    assert binding is not None
    assert binding.metadata.deletion_timestamp is None
    assert binding.spec.resource.uid == "uid-second"


# Works


def test_every_target_gets_a_work_with_its_replicas_and_no_other_cluster_any() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)

    story.place(web, member1=2, member2=1)

    found = story.works()
    assert {name: work.manifest["spec"]["replicas"] for name, work in found.items()} == {"member1": 2, "member2": 1}
    story.place(web, member2=3)
    assert found["member1"].metadata.deletion_timestamp is None
    assert story.works()["member1"].metadata.deletion_timestamp is not None
    assert story.works()["member2"].manifest["spec"]["replicas"] == 3


def test_editing_the_template_renews_its_works() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "paused": True}}))

    work = story.works()["member1"]
    assert work.manifest["spec"]["paused"] is True
    assert work.metadata.generation == 2


def test_a_work_somebody_edited_is_put_right_and_one_somebody_deleted_comes_back() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    wanted = story.works()["member1"].spec

    story.edit(story.works()["member1"].with_spec(suspend_dispatching=True))
    assert story.works()["member1"].spec == wanted
    story.delete(story.works()["member1"])
    story.remove_from_member("member1")

    assert story.works()["member1"].spec == wanted


def test_suspension_holds_back_the_clusters_it_names() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all", suspension=Suspension(dispatching=True)), web)

    story.place(web, member1=3)

    assert story.works()["member1"].spec.suspend_dispatching is True


def test_a_cluster_that_does_not_exist_gets_nothing_until_it_joins() -> None:
    web = deployment()
    story = Story(policy("all"), web)
    story.place(web, member1=3)
    assert story.works() == {}

    story.add(cluster("member1"))

    assert set(story.works()) == {"member1"}


def test_graceful_tasks_keep_the_old_copy_while_the_new_one_starts() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.place(web, (leaving("member1"),), member2=3)

    assert story.works()["member1"].metadata.deletion_timestamp is None
    assert set(story.works()) == {"member1", "member2"}


def test_directly_starts_the_new_copy_only_when_the_old_one_is_gone() -> None:
    """S002: the old one is gone first."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    assert story.works()["member1"].metadata.deletion_timestamp is not None
    assert "member2" not in story.works()

    story.remove_from_member("member1")
    assert set(story.works()) == {"member2"}


def test_directly_does_not_freeze_the_other_clusters_of_a_binding() -> None:
    """D14, against the original, which syncs nothing at all."""
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
    """D15, S002: only Directly, only one cluster to one cluster."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)

    story.place(web, (task,), **dict.fromkeys(targets, 3))

    labels = story.works()["member2"].manifest["metadata"]["labels"]
    assert (labels.get("job-id") == "7") is carried


# Status


def test_what_members_say_is_added_up_on_binding_and_template() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=2, member2=1)

    story.report("member1", readyReplicas=2, replicas=2)
    binding = story.binding(web)
    assert binding is not None
    applied = condition(binding.status.conditions, "FullyApplied")
    assert applied is not None
    assert applied.status == "False"

    story.report("member2", readyReplicas=1, replicas=1)
    binding = story.binding(web)
    assert binding is not None
    applied = condition(binding.status.conditions, "FullyApplied")
    assert applied is not None
    assert applied.status == "True"
    assert [(one.cluster_name, one.health) for one in binding.status.aggregated_status] == [
        ("member1", "Healthy"),
        ("member2", "Healthy"),
    ]
    assert story.template(web).status["readyReplicas"] == 3


def test_nothing_is_written_before_a_member_said_anything() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    binding = story.binding(web)

    assert binding is not None
    assert binding.status.conditions == ()
    assert binding.status.aggregated_status == ()


def test_a_copy_that_is_on_its_way_out_is_not_counted() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3, member2=3)
    story.report("member1")
    story.report("member2")

    story.place(web, member2=3)

    binding = story.binding(web)
    assert binding is not None
    assert [one.cluster_name for one in binding.status.aggregated_status] == ["member2"]


# Namespaces and garbage


def test_a_namespace_reaches_every_cluster_also_one_that_joins_later() -> None:
    story = Story(cluster("member1"), namespace("team"))

    story.add(cluster("member2"))

    assert set(story.works()) == {"member1", "member2"}
    assert story.works()["member1"].manifest["metadata"]["name"] == "team"


@pytest.mark.parametrize(
    "kept",
    [namespace("default"), namespace("kube-public"), namespace("own", **{SKIP_AUTO_PROPAGATION_LABEL: "true"})],
    ids=["default", "skipped", "labelled"],
)
def test_some_namespaces_stay_here(kept: Template) -> None:
    story = Story(cluster("member1"), kept)

    assert story.works() == {}


def test_a_namespace_that_is_labelled_later_takes_nothing_away_and_a_deleted_one_does() -> None:
    team = namespace("team")
    story = Story(cluster("member1"), team)

    story.edit(story.template(team).with_meta(labels={SKIP_AUTO_PROPAGATION_LABEL: "true"}))
    assert story.works()["member1"].metadata.deletion_timestamp is None
    story.delete(team)

    assert story.works()["member1"].metadata.deletion_timestamp is not None


def test_events_are_forgotten_after_an_hour() -> None:
    story, web = unreachable()
    story.place(web, (leaving("member1", DIRECTLY),), member2=3)
    assert story.events("DirectlyWaiting")
    story.place(web, member1=3)

    story.later(minutes=59)
    assert story.events("DirectlyWaiting")
    story.later(minutes=10)

    assert not story.events("DirectlyWaiting")


def test_works_of_users_are_left_alone() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    foreign = story.works()["member1"].with_meta(name="mine", annotations={}, uid="uid-mine")
    story.add(foreign)

    story.place(web, member2=3)

    assert story.store.objects[foreign.ref].metadata.deletion_timestamp is None
    assert works.BINDING_ANNOTATION not in story.store.objects[foreign.ref].metadata.annotations

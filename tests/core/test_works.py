"""From bindings to Works, and how long an old copy stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, ObjectMeta, Ref
from controlplane.apimachinery.names import (
    BINDING_ANNOTATION,
    DRIFT_ANNOTATION,
    LEFTOVER_ANNOTATION,
    WORK_FINALIZER,
    work_name,
)
from controlplane.clusters.questions import Discard
from controlplane.controllers.binding_status import BindingStatus
from controlplane.controllers.execution import Execution
from controlplane.controllers.namespaces import Namespaces
from controlplane.controllers.work_status import WorkStatus, WorkStatusSnapshot
from controlplane.controllers.works import Works
from controlplane.engine.state import Actor
from controlplane.eviction.leftovers import LateRemoval
from controlplane.kinds import EVENT, RESOURCE_BINDING
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.policy import (
    ResourceSelector,
    Suspension,
)
from controlplane.kinds.template import Template
from controlplane.propagation import works
from controlplane.propagation.bindings import binding_ref
from controlplane.settings import Settings
from tests.builders.objects import START, cluster, policy, work
from tests.builders.templates import deployment, namespace
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story
from tests.core.test_overridden_works import FAILING
from tests.core.test_overrides import policy as override


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


def test_a_work_whose_name_is_taken_waits_alone_until_the_name_is_free_and_reports_it() -> None:
    web = deployment()
    taken = work_name(web.kind, web.metadata.name, web.metadata.namespace)
    other = replace(work("other", "member1"), metadata=ObjectMeta(name=taken, namespace="karmada-es-member1", uid="o"))
    story = Story(*MEMBERS, other, policy("all"), web)

    story.place(web, member1=3, member2=3)

    assert set(story.works()) == {"member1", "member2"}
    assert story.works()["member1"].metadata.uid == "o"
    (message,) = story.events("NameTaken")
    assert f"{other.ref} exists and was not made for this object" in message
    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "paused": True}}))
    assert story.works()["member2"].manifest["spec"]["paused"] is True
    assert story.works()["member1"].metadata.uid == "o"
    story.delete(other)
    story.later(seconds=11)
    assert set(story.works()) == {"member1", "member2"}
    assert story.works()["member1"].manifest["metadata"]["name"] == "web"


def test_beside_a_taken_name_a_failing_override_policy_is_reported_and_no_step_is_repeated() -> None:
    web = deployment()
    taken = work_name(web.kind, web.metadata.name, web.metadata.namespace)
    other = replace(work("other", "member1"), metadata=ObjectMeta(name=taken, namespace="karmada-es-member1", uid="o"))
    broken = override("broken", target={"clusterNames": ["member2"]}, **FAILING)
    story = Story(*MEMBERS, other, policy("all"), broken, web)

    story.place(web, member1=3, member2=3, member3=3)
    for _ in range(3):
        story.later(seconds=11)

    assert set(story.works()) == {"member1", "member3"}
    assert len(story.events("ApplyOverridePolicyFailed")) == 2  # of the binding and of the template
    counts = {one.reason: one.count for one in story.store.list(EVENT)}
    assert counts["NameTaken"] == 4
    assert counts.get("SyncWorkSucceed", 1) == 1


def test_no_copy_is_removed_for_one_that_cannot_be_made() -> None:
    web = deployment()
    taken = work_name(web.kind, web.metadata.name, web.metadata.namespace)
    other = replace(work("other", "member2"), metadata=ObjectMeta(name=taken, namespace="karmada-es-member2", uid="o"))
    story = Story(*MEMBERS, other, policy("all"), web)
    story.place(web, member1=3)

    story.place(web, member2=3)

    assert story.works()["member1"].metadata.deletion_timestamp is None
    story.delete(other)
    story.later(seconds=11)
    assert story.works()["member1"].metadata.deletion_timestamp is not None
    assert story.works()["member2"].metadata.uid != "o"


def test_a_namespace_whose_work_has_a_taken_name_on_one_cluster_is_made_on_the_others() -> None:
    shop = namespace("shop")
    taken = work_name(shop.kind, shop.metadata.name)
    other = replace(work("other", "member1"), metadata=ObjectMeta(name=taken, namespace="karmada-es-member1", uid="o"))

    story = Story(*MEMBERS, other, shop)

    assert set(story.works()) == {"member1", "member2", "member3"}
    assert story.works()["member1"].metadata.uid == "o"


@pytest.mark.parametrize("case", ["made-again", "gone", "going-again", "never-away", "begun"])
def test_a_namespace_that_was_made_again_while_its_cluster_was_away_stays_there(case: str) -> None:
    """It has copies in it that are wanted again."""
    shop = namespace("shop")
    story = Story(*MEMBERS, shop)
    going = story.works()["member1"]
    story.delete(shop)
    if case == "begun":
        live: Any = story.works()["member1"]
        story.edit(live.with_status(conditions=(Condition("Applied", "True", "Removing", "it has finalizers"),)))
    if case != "gone":
        again = namespace("shop")
        gone = {"deletion_timestamp": story.now, "finalizers": ("kubernetes",)} if case == "going-again" else {}
        story.add(again.with_meta(uid="made-again", **gone))
    if case != "never-away":
        story.now += timedelta(seconds=60)
        member: Any = story.store.objects[MEMBERS[0].ref]
        story.edit(member.with_status(conditions=(Condition("Ready", "True", last_transition_time=story.now),)))

    (snapshot,) = Execution().load(story.store, [going.ref])
    assert snapshot is not None
    decision = Execution().decide(snapshot, Settings(), now=story.now)

    stays = case == "made-again"
    assert (snapshot.late == LateRemoval(wanted=True, may_go=False)) is stays
    assert decision.reason == ("WorkWantedAgain" if stays else "")
    assert story.works()["member1"].metadata.deletion_timestamp is not None
    if stays:
        story.store.apply([(None, decision)], by=Actor("execution"))
        story.settle()
        assert story.works()["member1"].metadata.deletion_timestamp is None, "the next Work takes it over"


def test_editing_the_template_renews_its_works() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)

    stored = story.template(web)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "paused": True}}))

    work = story.works()["member1"]
    assert work.manifest["spec"]["paused"] is True
    assert work.metadata.generation == 2


def test_an_edited_work_is_put_right_and_a_deleted_one_comes_back() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    wanted = story.works()["member1"].spec

    story.edit(story.works()["member1"].with_spec(suspend_dispatching=True))
    assert story.works()["member1"].spec == wanted
    story.delete(story.works()["member1"])
    story.remove_from_member("member1")

    assert story.works()["member1"].spec == wanted


def test_a_copy_that_is_wanted_again_before_its_removal_is_stored_is_not_removed() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    ref = binding_ref(web.ref)
    stored = story.store.get([ref])[ref]
    with_it, works_ = stored.spec.clusters, Works()
    story.store.put(stored.with_spec(clusters=(TargetCluster("member2", 3),)), stored)
    (snapshot,) = works_.load(story.store, [ref])
    decision = works_.decide(snapshot, Settings(), now=story.now)
    stored = story.store.get([ref])[ref]
    story.store.put(stored.with_spec(clusters=with_it), stored)

    (outcome,) = story.store.apply([(None, decision)], by=Actor("works"))

    assert outcome.lost
    assert story.works()["member1"].metadata.deletion_timestamp is None


@pytest.mark.parametrize("again", [False, True])
def test_i1_a_copy_that_is_wanted_again_before_the_member_was_asked_stays(again: bool) -> None:
    """Others may have been let go meanwhile, because this one is healthy."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    story.place(web, member2=3)
    going = story.works()["member1"]
    assert going.metadata.deletion_timestamp is not None
    if again:
        story.place(web, member1=3)
    execution = Execution()

    (snapshot,) = execution.load(story.store, [going.ref])
    decision = execution.decide(snapshot, Settings(), now=story.now)

    assert snapshot is not None
    assert snapshot.late is not None
    assert (snapshot.late.wanted, snapshot.late.may_go) == (again, True)
    assert [change.new.metadata.finalizers for change in decision.changes] == ([()] if again else [])
    assert {guard.ref.kind for guard in decision.guards} == ({RESOURCE_BINDING} if again else set())


def test_a_token_secret_reaches_members_without_the_token_and_the_account_of_the_control_plane() -> None:
    """A member deletes a token Secret that names the uid of another ServiceAccount than its own."""
    account = {"kubernetes.io/service-account.name": "runner"}
    token = Template.fold(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                **{"name": "runner-token", "namespace": "default", "uid": "uid-token"},
                "annotations": {**account, "kubernetes.io/service-account.uid": "uid-runner", "team": "a"},
            },
            "type": "kubernetes.io/service-account-token",
            "data": {"token": "c2VzYW1l"},
        }
    )
    story = Story(*MEMBERS, policy("all", ResourceSelector("v1", "Secret")), token)
    story.place(token, member1=0)

    manifest = story.works()["member1"].manifest

    assert "data" not in manifest
    notes = manifest["metadata"]["annotations"]
    assert {name: value for name, value in notes.items() if name in (*account, "team")} == {**account, "team": "a"}
    assert not [name for name, value in notes.items() if "service-account.uid" in f"{name} {value}"]


@pytest.mark.parametrize(
    ("api_version", "kind", "of_a_cluster"),
    [
        ("apps/v1", "Deployment", {"deployment.kubernetes.io/revision": "7"}),
        ("apps/v1", "Deployment", {"deployment.kubernetes.io/revision-history": "3,5"}),
        ("v1", "PersistentVolumeClaim", {"volume.kubernetes.io/selected-node": "node-3"}),
    ],
)
def test_what_one_cluster_has_noted_on_an_object_is_not_sent_to_others(
    api_version: str, kind: str, of_a_cluster: dict[str, str]
) -> None:
    """A manifest read from a cluster has it. The Deployment controller of a member would change it back for ever, and a
    claim whose node does not exist stays Pending."""
    metadata = {"name": "web", "namespace": "default", "uid": "uid-web", "annotations": {**of_a_cluster, "team": "a"}}
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}} if kind == "Deployment" else {}
    read = Template.fold({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    story = Story(*MEMBERS, policy("all", ResourceSelector(api_version, kind)), read)
    story.place(read, member1=1)

    notes = story.works()["member1"].manifest["metadata"]["annotations"]

    assert notes["team"] == "a"
    assert not [name for name, value in notes.items() if next(iter(of_a_cluster)) in f"{name} {value}"]


def test_a_work_loses_the_drift_mode_that_its_template_does_not_ask_for_any_more() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    before = story.template(web)
    story.edit(before.with_meta(annotations={**before.metadata.annotations, DRIFT_ANNOTATION: "Report"}))
    assert story.works()["member1"].metadata.annotations[DRIFT_ANNOTATION] == "Report"

    story.edit(story.template(web).with_meta(annotations=before.metadata.annotations))

    assert DRIFT_ANNOTATION not in story.works()["member1"].metadata.annotations


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


def test_works_of_users_are_left_alone() -> None:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    story.place(web, member1=3)
    foreign = story.works()["member1"].with_meta(name="mine", annotations={}, uid="uid-mine")
    story.add(foreign)

    story.place(web, member2=3)

    assert story.store.objects[foreign.ref].metadata.deletion_timestamp is None
    assert works.BINDING_ANNOTATION not in story.store.objects[foreign.ref].metadata.annotations


def test_a_copy_that_moves_does_not_run_on_although_copies_of_a_deleted_template_would_stay() -> None:
    web = deployment()
    called = [one.with_spec(api_endpoint=f"https://{one.metadata.name}") for one in MEMBERS]
    story = Story(*called, policy("all", preserve_resources_on_deletion=True), web)
    story.place(web, member1=3)
    story.place(web, member2=3)

    story.delete(web)

    found, execution = story.works(), Execution()
    for name, stays in (("member1", False), ("member2", True)):
        assert found[name].metadata.deletion_timestamp is not None
        (going,) = execution.load(story.store, [found[name].ref])
        question = execution.question(going, Settings(), now=story.now)
        assert isinstance(question, Discard)
        assert question.release is stays


def test_a_work_that_is_for_no_cluster_is_asked_about_nowhere() -> None:
    mine = work("mine").with_meta(namespace="default")

    assert WorkStatus().question(WorkStatusSnapshot(mine), Settings(), now=START) is None


STRANGE = {
    "one elsewhere says it is a copy": ("default", "work.karmada.io/ResourceBinding:default/web-deployment"),
    "one elsewhere says a Namespace is copied": ("default", "Namespace:default"),
    "what one says it is made for is nothing": ("karmada-es-member1", "work.karmada.io/ResourceBinding"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_what_a_users_own_work_says_of_itself_keeps_no_template_from_being_propagated(case: str) -> None:
    """Its annotations are copied with it, and anybody may write one into a namespace of theirs."""
    place, said = STRANGE[case]
    web, known = deployment(), {BINDING_ANNOTATION: said, LEFTOVER_ANNOTATION: "true"}
    forged = work("mine", annotations=known, finalizers=(WORK_FINALIZER,)).with_meta(namespace=place)
    story = Story(*MEMBERS, policy("all"), web, namespace("default"), forged)

    story.place(web, member1=3)
    mine = story.store.objects[Ref("work.karmada.io/Work", place, "mine")]
    story.edit(mine.with_meta(deletion_timestamp=story.now))
    for ready in ("Unknown", "True"):
        story.edit(story.store.objects[MEMBERS[0].ref].with_status(conditions=(Condition("Ready", ready),)))
    (going,) = Execution().load(story.store, [mine.ref])

    assert going is not None
    assert "web" in {work.manifest["metadata"]["name"] for work in story.works().values() if work.manifest}


@pytest.mark.parametrize("place", ["karmada-es-member1", "karmada-es-member9"])
def test_a_work_that_only_says_it_is_a_bindings_copy_keeps_nothing_from_going(place: str) -> None:
    """Its author could otherwise hold any binding and any namespace Terminating, by a finalizer."""
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web, namespace("default"))
    story.place(web, member1=3)
    for number, said in enumerate(("work.karmada.io/ResourceBinding:default/web-deployment", "Namespace:default")):
        known = {BINDING_ANNOTATION: said}
        held = work(f"forged{number}", annotations=known, finalizers=("example.io/held",))
        story.add(held.with_meta(namespace=place))
    (binding,) = story.store.list("work.karmada.io/ResourceBinding")

    (copies,) = Works().load(story.store, [binding.ref])
    (spread,) = Namespaces().load(story.store, [Ref("Namespace", "", "default")])
    (reports,) = BindingStatus().load(story.store, [binding.ref])

    assert copies is not None
    assert {one.metadata.name.partition("-")[0] for one in copies.stored.values()} == {"web"}
    assert spread is not None
    assert not {one.metadata.name for one in spread.stored.values()} & {"forged0", "forged1"}
    assert reports is not None
    assert {one.metadata.name.partition("-")[0] for one in reports.works} == {"web"}

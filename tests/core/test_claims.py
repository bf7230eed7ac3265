"""Which policy claims a template, when it lets go, and what follows it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import CLUSTER_PROPAGATION_POLICY_FINALIZER, PROPAGATION_POLICY_FINALIZER
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.interpret import INTERPRETERS, InterpretationFailed, interpreter_for
from controlplane.interpret.customized import Script
from controlplane.interpret.interpreter import Demand
from controlplane.kinds.binding import Binding, ObjectReference, ResourceBindingSpec
from controlplane.kinds.policy import (
    Placement,
    Policy,
    ResourceSelector,
    SchedulePriority,
    Toleration,
)
from controlplane.kinds.template import Template
from controlplane.propagation import matching
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, bound, leaving, policy
from tests.builders.templates import deployment, namespace
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story
from tests.core.test_federated_quotas import ON as QUOTAS
from tests.core.test_federated_quotas import quota

FINALIZERS = (PROPAGATION_POLICY_FINALIZER, CLUSTER_PROPAGATION_POLICY_FINALIZER)


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


def released(story: Story, web: Template, claiming: Policy) -> Binding:
    """Place a template and delete its policy, which is to go. Return the binding, which is to keep its placement."""
    story.place(web, member1=3)
    story.delete(claiming)
    story.later(seconds=3)

    binding = story.binding(web)
    assert claiming.ref not in story.store.objects
    assert binding is not None
    assert [one.name for one in binding.spec.clusters] == ["member1"]
    return binding


def test_deleting_a_policy_takes_its_claims_away_and_leaves_placement_and_copies() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    binding = released(story, web, all_)

    assert "propagationpolicy.karmada.io/permanent-id" not in binding.metadata.labels
    assert story.template(web).metadata.labels == {"app": "web"}
    assert set(story.works()) == {"member1"}


@pytest.mark.parametrize("ends", ["the policy is deleted", "the policy selects something else"])
def test_a_workload_without_its_policy_waits_no_longer_for_a_lost_cluster_than_the_policy_said(ends: str) -> None:
    said = {"failover.lifeboat.io/directly-unreachable": "After=60", "failover.lifeboat.io/drift": "Report"}
    web, all_ = deployment(), policy("all", placement=DIVIDED_PLACEMENT).with_meta(annotations=said)
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3)
    lost = MEMBERS[0].with_status(conditions=(Condition("Ready", "False", last_transition_time=START),))
    story.edit(replace(lost, metadata=story.store.objects[lost.ref].metadata))
    story.place(web, (leaving("member1", "Directly"),), member2=3)
    assert set(story.works()) == {"member1"}

    if ends == "the policy is deleted":
        story.delete(all_)
    else:
        story.edit(all_.with_spec(resource_selectors=(ResourceSelector("apps/v1", "StatefulSet"),)))
    story.later(seconds=61)

    binding = story.binding(web)
    assert binding is not None
    assert matching.claimant(binding) is None
    assert set(story.works()) == {"member1", "member2"}
    assert story.works()["member2"].metadata.annotations["failover.lifeboat.io/drift"] == "Report"


def test_the_next_policy_says_how_long_a_workload_waits_for_a_lost_cluster() -> None:
    said = {"failover.lifeboat.io/directly-unreachable": "After=60", "failover.lifeboat.io/together": "true"}
    web, all_ = deployment(), policy("all").with_meta(annotations=said)
    story = Story(*MEMBERS, all_, web)
    released(story, web, all_)
    kept = story.binding(web)
    assert kept is not None
    assert {name: kept.metadata.annotations.get(name) for name in said} == {
        **said,
        "failover.lifeboat.io/together": None,
    }

    story.add(policy("next"))

    binding = story.binding(web)
    assert binding is not None
    assert matching.claimant(binding) == ("default", "next")
    assert said.keys().isdisjoint(binding.metadata.annotations)


@pytest.mark.parametrize(
    "waiting",
    [
        {"schedule_priority": SchedulePriority("KubePriorityClass", "missing")},
        {"dependent_overrides": ("missing",)},
        {"activation_preference": "Lazy"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_deleted_policy_goes_although_the_next_one_is_not_applied_yet(waiting: dict[str, Any]) -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web, policy("next", at=START + timedelta(seconds=60), **waiting))
    binding = released(story, web, all_)

    assert matching.claimant(binding) is None
    assert matching.claimant(story.template(web)) in (None, ("default", "next"))


def test_a_deleted_policy_goes_although_a_quota_refuses_the_requests_of_the_workload() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web, policy("next", at=START + timedelta(seconds=60)), settings=QUOTAS)
    story.place(web, member1=3)
    story.add(quota(cpu="3"))
    greedy = msgspec.json.decode(msgspec.json.encode(web.content).replace(b'"cpu":"1"', b'"cpu":"2"'))

    story.edit(story.template(web).with_content(greedy))
    refused = story.binding(web)
    assert refused is not None
    assert matching.claimant(refused) == ("default", "all")
    binding = released(story, web, all_)

    assert matching.claimant(binding) == ("default", "next")
    assert binding.spec.replica_requirements is not None
    assert binding.spec.replica_requirements.resource_request == {"cpu": "1"}


def test_a_deleted_policy_goes_although_a_script_about_the_workload_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web, policy("next", at=START + timedelta(seconds=60)))
    story.place(web, member1=3)
    rule = Script("broken", "InterpretReplica", "…")

    def failing(doc: Any) -> Demand:
        raise InterpretationFailed(rule, "it is broken")

    broken = replace(interpreter_for("apps/v1", "Deployment"), replicas=failing)
    monkeypatch.setitem(INTERPRETERS._of, ("apps/v1", "Deployment"), broken)
    story.again()
    kept = story.binding(web)
    assert kept is not None
    assert matching.claimant(kept) == matching.claimant(story.template(web)) == ("default", "all")
    binding = released(story, web, all_)

    assert matching.claimant(binding) is matching.claimant(story.template(web)) is None
    story.later(seconds=60)
    assert "InterpretReplica by customization broken failed: it is broken" in story.events("GetReplicasFailed")


def test_a_new_workload_about_which_a_script_fails_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, right = Script("broken", "InterpretReplica", "…"), interpreter_for("apps/v1", "Deployment")

    def failing(doc: Any) -> Demand:
        raise InterpretationFailed(rule, "it is broken")

    monkeypatch.setitem(INTERPRETERS._of, ("apps/v1", "Deployment"), replace(right, replicas=failing))
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web)
    assert story.binding(web) is None
    assert "InterpretReplica by customization broken failed: it is broken" in story.events("GetReplicasFailed")

    monkeypatch.setitem(INTERPRETERS._of, ("apps/v1", "Deployment"), right)
    story.later(seconds=11)

    assert story.binding(web) is not None


def test_a_released_binding_goes_with_its_template_although_a_new_one_is_there_already() -> None:
    web, all_ = deployment(), policy("all")
    story = Story(*MEMBERS, all_, web)
    story.place(web, member1=3)
    story.delete(all_)
    fresh = replace(web, metadata=replace(web.metadata, uid="uid-fresh"))

    story.replace(web, fresh)
    story.remove_from_member("member1")
    story.later(seconds=60)

    assert story.binding(web) is None
    assert story.works() == {}


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


CLAIM = {"clusterpropagationpolicy.karmada.io/name": "all"}
CLAIM_OF_DEFAULT = {"propagationpolicy.karmada.io/namespace": "default", "propagationpolicy.karmada.io/name": "all"}


def by_hand(name: str, *, namespace: str = "default", claim: dict[str, str] = CLAIM, of: str = "web") -> Binding:
    """A binding that a user wrote, with a claim that no controller made."""
    resource = ObjectReference("apps/v1", "Deployment", of, namespace)
    return bound(ResourceBindingSpec(resource), name=name, namespace=namespace, annotations=claim)


@pytest.mark.parametrize(
    ("one", "of"),
    [
        (deployment(namespace="karmada-system", annotations=CLAIM), ""),
        (deployment(namespace="kube-public", annotations=CLAIM), ""),
        (deployment(namespace="kube-public", annotations=CLAIM_OF_DEFAULT), "default"),
        (by_hand("mine"), ""),
        (by_hand("web-deployment"), ""),
        (by_hand("other-deployment", namespace="other", claim=CLAIM_OF_DEFAULT, of="other"), "default"),
    ],
    ids=[
        "in a reserved namespace",
        "in a skipped namespace",
        "in a skipped namespace, of a policy elsewhere",
        "a binding under another name",
        "the binding of a template without a claim",
        "the binding of a template elsewhere",
    ],
)
def test_a_claim_that_its_policy_never_made_does_not_keep_the_policy(one: Template | Binding, of: str) -> None:
    """A user who may write a single object could otherwise keep every policy Terminating."""
    chosen = ResourceSelector("apps/v1", "Deployment", "default", "chosen")
    held = policy("all", chosen, namespace=of).with_meta(finalizers=FINALIZERS)
    story = Story(*MEMBERS, held, deployment("chosen"), deployment("web"), deployment("other", namespace="other"))
    story.settings = replace(Settings(), skipped_propagating_namespaces=("kube-.*",))
    story.add(one)

    story.delete(held)
    story.later(seconds=5)

    assert held.ref not in story.store.objects


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


def test_a_claim_and_a_first_work_are_events_as_in_the_original_and_a_scaling_is_none() -> None:
    web, preempting = deployment(), Settings(feature_gates={**GATES, "PropagationPolicyPreemption": True})
    story = Story(*MEMBERS, policy("low"), web, settings=preempting)
    story.place(web, member1=3)

    def reported() -> dict[str, list[str]]:
        reasons = ("ApplyPolicySucceed", "PreemptPolicySucceed", "SyncWorkSucceed")
        return {reason: story.events(reason) for reason in reasons if story.events(reason)}

    synced = ["Sync work of ResourceBinding(default/web-deployment) successful."] * 2  # of binding and template
    first = {"ApplyPolicySucceed": ["Apply policy(default/low) succeed"], "SyncWorkSucceed": synced}
    assert reported() == first

    story.place(web, member1=5)
    assert reported() == first

    selector = ResourceSelector("apps/v1", "Deployment", name="web")
    story.add(policy("high", selector, priority=1, preemption="Always"))
    assert "Apply policy(default/high) succeed" in reported()["ApplyPolicySucceed"]
    assert reported()["PreemptPolicySucceed"] == [
        "Propagation policy(default/high) preempted propagation policy(default/low) successfully"
    ]


def test_a_policy_that_turns_lazy_changes_nothing_until_the_user_touches_the_template() -> None:
    story = Story(policy("all"))  # the template is newer than the policy
    story.add(web := deployment())
    assert story.binding(web) is not None

    stored = story.store.objects[policy("all").ref]
    story.edit(stored.with_spec(activation_preference="Lazy", conflict_resolution="Overwrite"))
    kept = story.binding(web)
    assert kept is not None
    assert kept.spec.conflict_resolution == "Abort"

    template = story.template(web)
    story.edit(template.with_meta(annotations={**template.metadata.annotations, "touched": "yes"}))
    applied = story.binding(web)
    assert applied is not None
    assert applied.spec.conflict_resolution == "Overwrite"
    assert story.again() == 0

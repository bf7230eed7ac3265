"""What a policy gets, and what one is refused for."""

from __future__ import annotations

import json

import pytest

from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import kind_key
from controlplane.kind import KINDS, text_of
from controlplane.kinds.policy import Policy
from controlplane.kinds.policy.placement_rules import effective
from controlplane.settings import Compat, Settings
from controlplane.wire.prune import validate_fields
from tests.builders.documents import Document, policy
from tests.core.admitted import NOW, UID, created, fields, placed, preserving, updated


def test_a_policy_gets_its_id_finalizer_and_defaults() -> None:
    doc = policy(
        placement={"spreadConstraints": [{}], "replicaScheduling": {}},
        failover={"application": {"decisionConditions": {}}},
        propagateDeps=True,
    )

    made: Policy = created(doc).object

    assert made.metadata.labels["propagationpolicy.karmada.io/permanent-id"] == UID
    assert made.metadata.finalizers == ("karmada.io/propagation-policy-controller",)
    strategy = made.spec.placement.replica_scheduling
    assert strategy is not None
    assert (strategy.replica_scheduling_type, strategy.replica_division_preference) == ("Divided", "Weighted")
    assert made.spec.failover is not None
    application = made.spec.failover.application
    assert application is not None
    assert (application.decision_conditions.toleration_seconds, application.grace_period_seconds) == (300, 600)


def test_a_service_import_brings_its_dependencies_along() -> None:
    selector = {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport"}

    assert created(policy(resourceSelectors=[selector])).object.spec.propagate_deps


def test_no_tolerations_are_injected_unless_asked_for() -> None:
    """[default-tolerations]."""
    asked = Settings(compat=Compat(default_not_ready_toleration_seconds=300, default_unreachable_toleration_seconds=60))
    own = {"key": "cluster.karmada.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

    assert created(policy()).object.spec.placement.cluster_tolerations == ()
    placement = created(policy(placement={"clusterTolerations": [own]}), settings=asked).object.spec.placement
    assert [(one.key, one.toleration_seconds) for one in placement.cluster_tolerations] == [
        ("cluster.karmada.io/not-ready", 5),
        ("cluster.karmada.io/unreachable", 60),
    ]
    old = created(policy()).object
    same = policy(metadata={"labels": dict(old.metadata.labels)})
    assert updated(same, old, settings=asked).object.spec.placement.cluster_tolerations == ()


@pytest.mark.parametrize(
    ("old_name", "stored"), [("Immediately", "Directly"), ("Graciously", "Gracefully"), ("Directly", "Directly")]
)
def test_purge_modes_are_stored_under_todays_names(old_name: str, stored: str) -> None:
    """[purge-modes]."""
    admitted = created(policy(failover={"cluster": {"purgeMode": old_name}}))

    assert admitted.object.spec.failover.cluster.purge_mode == stored
    assert bool(admitted.warnings) is (old_name != stored)


def test_items_of_lists_stay_as_they_were_written() -> None:
    """`kubectl apply` compares whole lists: a default in one of their items would be a difference for ever."""
    doc = policy(placement={"spreadConstraints": [{"maxGroups": 2, "minGroups": 2}]})

    made: Policy = created(doc).object

    written = json.loads(text_of(made))["spec"]
    assert written["resourceSelectors"] == doc["spec"]["resourceSelectors"]
    assert written["placement"]["spreadConstraints"] == [{"maxGroups": 2, "minGroups": 2}]
    constraint = effective(made.spec.placement).spread_constraints[0]
    assert (constraint.spread_by_field, constraint.min_groups) == ("cluster", 2)


def test_the_misspelled_pure_mode_is_understood_and_stays_in_the_document() -> None:
    admitted = created(policy(failover={"cluster": {"pureMode": "Directly"}}))

    behaviour = admitted.object.spec.failover.cluster
    assert (behaviour.purge_mode, behaviour.pure_mode) == ("Directly", "Directly")
    assert "purgeMode" in admitted.warnings[0]


@pytest.mark.parametrize(
    ("stored", "edited", "both"),
    [
        ({"pureMode": "Directly"}, {"pureMode": "Directly", "purgeMode": "Directly"}, "Directly"),
        ({"pureMode": "Directly"}, {"pureMode": "Gracefully", "purgeMode": "Directly"}, "Gracefully"),
        ({"pureMode": "Directly"}, {"pureMode": "Directly", "purgeMode": "Gracefully"}, "Gracefully"),
        ({"purgeMode": "Directly"}, {"pureMode": "Gracefully", "purgeMode": "Directly"}, "Gracefully"),
    ],
)
def test_whichever_of_pure_mode_and_purge_mode_is_edited_the_other_follows(
    stored: Document, edited: Document, both: str
) -> None:
    old = created(policy(failover={"cluster": stored})).object

    new = updated(policy(failover={"cluster": edited}), old).object

    behaviour = new.spec.failover.cluster
    assert (behaviour.purge_mode, behaviour.pure_mode) == (both, both)


def test_a_new_policy_whose_pure_mode_contradicts_its_purge_mode_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        created(policy(failover={"cluster": {"pureMode": "Directly", "purgeMode": "Gracefully"}}))

    assert [one.field for one in refused.value.details.causes] == ["spec.failover.cluster.pureMode"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceSelectors": []}, "spec.resourceSelectors"),
        (
            {"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "namespace": "x"}]},
            "spec.resourceSelectors[0].namespace",
        ),
        ({"preemption": "Always"}, "spec.resourceSelectors[0].name"),
        ({"preemption": "Sometimes"}, "spec.preemption"),
        ({"conflictResolution": "Merge"}, "spec.conflictResolution"),
        ({"activationPreference": "Eager"}, "spec.activationPreference"),
        ({"priority": 2**31}, "spec.priority"),
        (
            {"schedulePriority": {"priorityClassSource": "Pod", "priorityClassName": "x"}},
            "spec.schedulePriority.priorityClassSource",
        ),
        ({"failover": {"application": {"decisionConditions": {}}}}, "spec.propagateDeps"),
        ({"failover": {"cluster": {"purgeMode": "Never"}}}, "spec.failover.cluster.purgeMode"),
        ({"failover": {"cluster": {"tolerationSeconds": -1}}}, "spec.failover.cluster.tolerationSeconds"),
        ({"failover": {"cluster": {"tolerationSeconds": 2**31}}}, "spec.failover.cluster.tolerationSeconds"),
        (
            {
                "failover": {"application": {"decisionConditions": {"tolerationSeconds": 2**31}}},
                "propagateDeps": True,
            },
            "spec.failover.application.decisionConditions.tolerationSeconds",
        ),
        (
            preserving("a b", "{.x}"),
            "spec.failover.cluster.statePreservation.rules[0].aliasLabelName",
        ),
        (
            preserving("a", "{.x"),
            "spec.failover.cluster.statePreservation.rules[0].jsonPath",
        ),
        (
            {"suspension": {"dispatching": True, "dispatchingOnClusters": {"clusterNames": ["a"]}}},
            "spec.suspension",
        ),
        ({"placement": {"clusterAffinity": {}, "clusterAffinities": [{"affinityName": "a"}]}}, "spec.placement"),
        (
            {"placement": {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]}},
            "spec.placement.clusterAffinities",
        ),
        (
            placed(clusterAffinity={"fieldSelector": {"matchExpressions": [{"key": "name", "operator": "In"}]}}),
            "spec.placement.clusterAffinity.fieldSelector",
        ),
        (
            {"placement": {"clusterTolerations": [{"key": "a", "operator": "Lt"}]}},
            "spec.placement.clusterTolerations[0].operator",
        ),
        (
            {"placement": {"clusterTolerations": [{"key": "a", "effect": "NoExec"}]}},
            "spec.placement.clusterTolerations[0].effect",
        ),
        ({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}}, "spec.placement.spreadConstraints"),
        (
            {"placement": {"spreadConstraints": [{"spreadByLabel": "rack"}]}},  # can never be met
            "spec.placement.spreadConstraints[0].spreadByLabel",
        ),
        (
            {"placement": {"spreadConstraints": [{"minGroups": 3, "maxGroups": 2}]}},
            "spec.placement.spreadConstraints[0]",
        ),
        (
            {"placement": {"replicaScheduling": {"weightPreference": {"staticWeightList": [{"weight": 0}]}}}},
            "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight",
        ),
        (
            {"placement": {"workloadAffinity": {"affinity": {"groupByLabelKey": ""}}}},
            "spec.placement.workloadAffinity.affinity.groupByLabelKey",
        ),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_field(spec: Document, field: str) -> None:
    assert field in fields(policy(**spec))


POISON = [
    ([{"aliasLabelName": "a", "jsonPath": "{" + ".*" * 600 + "}"}], ".rules[0].jsonPath"),
    ([{"aliasLabelName": f"a{n}", "jsonPath": "{..x}"} for n in range(33)], ".rules"),
]


@pytest.mark.parametrize(("rules", "field"), POISON)
def test_a_poisoned_policy_is_refused_when_it_is_saved(rules: list[Document], field: str) -> None:
    state = {"purgeMode": "Directly", "statePreservation": {"rules": rules}}

    assert f"spec.failover.cluster.statePreservation{field}" in fields(policy(failover={"cluster": state}))


def test_a_label_of_another_policy_is_no_permanent_id_and_the_annotation_of_an_import_is() -> None:
    label, annotation = "propagationpolicy.karmada.io/permanent-id", "policy.lifeboat.io/imported-id"
    copied, imported = policy(), policy()
    copied["metadata"]["labels"] = imported["metadata"]["labels"] = {label: "there"}
    imported["metadata"]["annotations"] = {annotation: "there", "a": "b"}

    assert created(copied).object.metadata.labels == {label: UID}
    made = created(imported).object.metadata
    assert (made.labels, made.annotations) == ({label: "there"}, {"a": "b"})


def test_scheduler_and_permanent_id_never_change() -> None:
    old = created(policy()).object
    changed = policy(schedulerName="mine")
    changed["metadata"]["labels"] = {"propagationpolicy.karmada.io/permanent-id": "another"}

    assert fields(changed, old=old) == {
        "spec.schedulerName",
        "metadata.labels[propagationpolicy.karmada.io/permanent-id]",
    }


def test_a_policy_that_is_replaced_whole_keeps_its_id_and_its_finalizer() -> None:
    old = created(policy()).object

    kept = updated(policy(priority=3), old).object

    assert kept.spec.priority == 3
    assert kept.metadata.labels == old.metadata.labels
    assert kept.metadata.finalizers == old.metadata.finalizers


def test_a_policy_that_goes_is_released_by_its_finalizers() -> None:
    old = created(policy()).object.with_meta(deletion_timestamp=NOW)

    assert updated(policy(), old).object.metadata.finalizers == ()


def test_what_is_accepted_without_effect_is_said() -> None:
    """[state-preservation], [failover-gate]."""
    state = {"rules": [{"aliasLabelName": "id", "jsonPath": "{.id}"}]}
    doc = policy(failover={"cluster": {"purgeMode": "Gracefully", "statePreservation": state}}, preemption="Never")

    reported = created(doc, settings=Settings()).warnings

    assert any("StatefulFailoverInjection" in one for one in reported)
    assert any("only Directly" in one for one in reported)
    assert any("feature gate Failover is off" in one for one in reported)
    assert created(policy(failover={"cluster": {"purgeMode": "Directly", "statePreservation": state}})).warnings == ()


@pytest.mark.parametrize(("said", "good"), [("Wait", True), ("After=300", True), ("After=soon", False), ("Now", False)])
def test_how_long_to_wait_for_an_unreachable_source_is_checked(said: str, good: bool) -> None:
    """[directly-unreachable]."""
    annotation = "failover.lifeboat.io/directly-unreachable"
    doc = policy(metadata={"annotations": {annotation: said}})

    if good:
        assert created(doc).object.metadata.annotations == {annotation: said}
    else:
        assert fields(doc) == {f"metadata.annotations[{annotation}]"}


@pytest.mark.parametrize(("field", "value"), [("association", True)])
def test_what_nothing_here_acts_on_is_an_unknown_field(field: str, value: object) -> None:
    """association is what propagateDeps was called before (docs/api.md)."""
    doc = policy(**{field: value})

    assert validate_fields(doc, KINDS[kind_key(doc["apiVersion"], doc["kind"])].schema()) == [
        f'unknown field "spec.{field}"'
    ]


@pytest.mark.parametrize(
    ("kinds", "warned"),
    [
        ([("apps/v1", "Deployment")], False),
        ([("apps/v1", "Deployment"), ("v1", "ConfigMap")], False),
        ([("batch/v1", "CronJob")], True),
        ([("batch/v1", "CronJob"), ("example.io/v1", "Gadget")], True),
    ],
)
def test_application_failover_of_what_is_never_unhealthy_is_warned_of(
    kinds: list[tuple[str, str]], warned: bool
) -> None:
    selectors = [{"apiVersion": api_version, "kind": kind} for api_version, kind in kinds]
    behaviour = {"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"}}

    reported = created(policy(resourceSelectors=selectors, propagateDeps=True, failover=behaviour)).warnings

    assert any("there is no rule for the health" in one for one in reported) is warned

"""What is refused and why, what is filled in, what never changes (semantics 1.1-1.4; D2-D6, D13-D17, D23)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.admission import admit_create, admit_update
from controlplane.errors import BadRequest, Cause, Conflict, Invalid
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding
from controlplane.kinds.cluster import Cluster
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.meta import kind_key
from controlplane.settings import GATES, Compat, Settings

NOW = datetime(2026, 1, 1, 12, 0, 0, 500, tzinfo=UTC)
UID = "0c2b8a4e-5f6d-4a3b-9c1d-7e8f9a0b1c2d"
ON = Settings(feature_gates={**GATES, "Failover": True, "StatefulFailoverInjection": True})

Document = dict[str, Any]


def created(doc: Document, *, namespace: str = "default", settings: Settings = ON) -> Any:
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    return admit_create(kind, doc, namespace=namespace, settings=settings, now=NOW, uid=UID)


def updated(doc: Document, old: Any, *, subresource: str = "", settings: Settings = ON) -> Any:
    kind = KINDS[kind_key(doc["apiVersion"], doc["kind"])]
    later = NOW + timedelta(minutes=5)
    return admit_update(kind, doc, old, subresource=subresource, settings=settings, now=later)


def refused(doc: Document, *, settings: Settings = ON, old: Any = None) -> list[Cause]:
    with pytest.raises(Invalid) as caught:
        created(doc, settings=settings) if old is None else updated(doc, old, settings=settings)
    return list(caught.value.details.causes)


def fields(doc: Document, **more: Any) -> set[str]:
    return {cause.field for cause in refused(doc, **more)}


def policy(name: str = "p", *, metadata: Document | None = None, **spec: Any) -> Document:
    selectors = [{"apiVersion": "apps/v1", "kind": "Deployment"}]
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"resourceSelectors": selectors, **spec},
    }


def cluster(name: str = "member1", **spec: Any) -> Document:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"syncMode": "Push", **spec},
    }


def taint_policy(**spec: Any) -> Document:
    return {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "p"},
        "spec": spec,
    }


def config_map(name: str = "cm", **metadata: Any) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def placed(**placement: Any) -> Document:
    return {"placement": placement}


def preserving(alias: str, path: str) -> Document:
    return {"failover": {"cluster": {"statePreservation": {"rules": [{"aliasLabelName": alias, "jsonPath": path}]}}}}


# What every kind has in common


def test_a_new_object_gets_what_only_the_server_knows() -> None:
    doc = config_map(uid="mine", resourceVersion="7", generation=9, creationTimestamp=None)

    metadata = created(doc).object.metadata

    assert (metadata.uid, metadata.resource_version) == (UID, "")
    assert metadata.creation_timestamp == NOW.replace(microsecond=0)
    assert metadata.namespace == "default"


def test_a_status_sent_with_a_new_object_is_ignored() -> None:
    doc = cluster() | {"status": {"kubernetesVersion": "v9"}}

    assert created(doc).object.status.kubernetes_version == ""


def test_a_generated_name_ends_in_letters_drawn_from_the_uid() -> None:
    doc = config_map("", generateName="cm-")

    first, second = created(doc).object.metadata.name, created(doc).object.metadata.name

    assert first == second
    assert first.startswith("cm-")
    assert len(first) == len("cm-") + 5


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "No_Good"}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"labels": {"a b": "x"}}, "metadata.labels"),
        ({"labels": {"a": "x y"}}, "metadata.labels[a]"),
        ({"annotations": {"a/b/c": ""}}, "metadata.annotations"),
        ({"annotations": {"a": "x" * 300_000}}, "metadata.annotations"),
        ({"finalizers": ["not a name"]}, "metadata.finalizers"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "x", "uid": "u"}]},
            "metadata.ownerReferences[0].kind",
        ),
    ],
)
def test_metadata_that_cannot_be_is_refused_by_field(change: Document, field: str) -> None:
    assert field in fields(config_map(**change) if "name" not in change else {**config_map(), "metadata": change})


def test_all_causes_are_told_at_once_schema_and_metadata_together() -> None:
    doc = policy("Bad Name", priority="high", placement=[])
    doc["spec"]["resourceSelectors"] = [{"apiVersion": "apps/v1"}]

    assert fields(doc) == {"metadata.name", "spec.priority", "spec.placement", "spec.resourceSelectors[0].kind"}


def test_the_message_names_field_value_rule_and_way_out() -> None:
    taint = {"key": "a", "effect": "NoExec"}

    (cause,) = refused(cluster(taints=[taint]))

    assert cause.reason == "FieldValueNotSupported"
    assert cause.field == "spec.taints[0].effect"
    assert cause.message.startswith('Unsupported value: "NoExec": supported values: "NoSchedule", ')


def test_null_says_that_a_field_is_not_set() -> None:
    doc = policy(placement={"clusterAffinity": None, "spreadConstraints": None}, failover=None)

    assert created(doc).object.spec.failover is None


def test_a_built_in_kind_is_checked_against_its_own_schema() -> None:
    pod = {"containers": [{"image": "nginx"}]}
    doc = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": "3", "selector": {}, "template": {"spec": pod}},
    }

    assert fields(doc) == {"spec.replicas", "spec.template.spec.containers[0].name"}


def test_another_kinds_or_namespaces_document_is_a_bad_request() -> None:
    doc = config_map(namespace="other")
    with pytest.raises(BadRequest, match="namespace"):
        created(doc)
    with pytest.raises(BadRequest, match="kind"):
        admit_create(KINDS["Secret"], config_map(), namespace="default", settings=ON, now=NOW, uid=UID)


# Updates


def test_an_update_keeps_identity_and_raises_the_generation_only_with_the_spec() -> None:
    old = created(policy()).object

    same = updated(policy(metadata={"labels": dict(old.metadata.labels)}), old).object
    other = updated(policy(metadata={"labels": dict(old.metadata.labels)}, priority=1), old).object

    assert (same.metadata.uid, same.metadata.generation) == (UID, 1)
    assert (other.metadata.uid, other.metadata.generation) == (UID, 2)
    assert other.metadata.creation_timestamp == old.metadata.creation_timestamp


def test_an_update_of_the_spec_leaves_the_status_and_one_of_the_status_the_spec() -> None:
    old = created(cluster()).object.with_status(kubernetes_version="v1.33.0")

    by_spec = updated(cluster(region="here") | {"status": {"kubernetesVersion": "v9"}}, old).object
    by_status = updated(
        cluster(region="here") | {"status": {"kubernetesVersion": "v9"}}, old, subresource="status"
    ).object

    assert (by_spec.spec.region, by_spec.status.kubernetes_version) == ("here", "v1.33.0")
    assert (by_status.spec.region, by_status.status.kubernetes_version) == ("", "v9")
    assert by_status.metadata.generation == old.metadata.generation


@pytest.mark.parametrize(
    ("metadata", "error"), [({"name": "other"}, BadRequest), ({"name": "cm", "uid": "another"}, Conflict)]
)
def test_name_and_uid_never_change(metadata: Document, error: type[Exception]) -> None:
    old = created(config_map()).object

    with pytest.raises(error):
        updated({**config_map(), "metadata": metadata}, old)


def test_nothing_may_begin_to_hold_an_object_that_is_going() -> None:
    old = created(config_map(finalizers=["a/b"])).object.with_meta(deletion_timestamp=NOW)

    assert "metadata.finalizers" in fields(config_map(finalizers=["a/b", "c/d"]), old=old)
    assert updated(config_map(), old).object.metadata.finalizers == ()


# Policies


def test_a_policy_gets_its_id_finalizer_and_defaults() -> None:
    doc = policy(
        placement={"spreadConstraints": [{}], "replicaScheduling": {}},
        failover={"application": {"decisionConditions": {}}},
        propagateDeps=True,
    )

    made: Policy = created(doc).object

    assert made.metadata.labels["propagationpolicy.karmada.io/permanent-id"] == UID
    assert made.metadata.finalizers == ("karmada.io/propagation-policy-controller",)
    assert made.spec.resource_selectors[0].namespace == "default"
    constraint = made.spec.placement.spread_constraints[0]
    assert (constraint.spread_by_field, constraint.min_groups) == ("cluster", 1)
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
    """D2."""
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
    """D13."""
    admitted = created(policy(failover={"cluster": {"purgeMode": old_name}}))

    assert admitted.object.spec.failover.cluster.purge_mode == stored
    assert bool(admitted.warnings) is (old_name != stored)


def test_the_misspelled_pure_mode_is_understood() -> None:
    """D13, S001."""
    admitted = created(policy(failover={"cluster": {"pureMode": "Directly"}}))

    assert admitted.object.spec.failover.cluster.purge_mode == "Directly"
    assert "purgeMode" in admitted.warnings[0]


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


def test_scheduler_and_permanent_id_never_change() -> None:
    old = created(policy()).object

    assert fields(policy(schedulerName="mine"), old=old) == {
        "spec.schedulerName",
        "metadata.labels[propagationpolicy.karmada.io/permanent-id]",
    }


def test_what_is_accepted_without_effect_is_said() -> None:
    """D15, D17."""
    state = {"rules": [{"aliasLabelName": "id", "jsonPath": "{.id}"}]}
    doc = policy(failover={"cluster": {"purgeMode": "Gracefully", "statePreservation": state}}, preemption="Never")

    told = created(doc, settings=Settings()).warnings

    assert any("StatefulFailoverInjection" in one for one in told)
    assert any("only Directly" in one for one in told)
    assert any("feature gate Failover is off" in one for one in told)
    assert created(policy(failover={"cluster": {"purgeMode": "Directly", "statePreservation": state}})).warnings == ()


@pytest.mark.parametrize(("said", "good"), [("Wait", True), ("After=300", True), ("After=soon", False), ("Now", False)])
def test_how_long_to_wait_for_an_unreachable_source_is_checked(said: str, good: bool) -> None:
    """D14."""
    annotation = "failover.lifeboat.io/directly-unreachable"
    doc = policy(metadata={"annotations": {annotation: said}})

    if good:
        assert created(doc).object.metadata.annotations == {annotation: said}
    else:
        assert fields(doc) == {f"metadata.annotations[{annotation}]"}


# Clusters


@pytest.mark.parametrize(
    ("doc", "field"),
    [
        (cluster("a" * 49), "metadata.name"),
        (cluster("a.b"), "metadata.name"),
        (cluster(syncMode="Sideways"), "spec.syncMode"),
        (cluster(syncMode=""), "spec.syncMode"),
        (cluster(apiEndpoint="hostname"), "spec.apiEndpoint"),
        (cluster(apiEndpoint="https://u:p@host"), "spec.apiEndpoint"),
        (cluster(apiEndpoint="https://host?a=b"), "spec.apiEndpoint"),
        (cluster(apiEndpoint="https://host#part"), "spec.apiEndpoint"),
        (cluster(proxyURL="ftp://host"), "spec.proxyURL"),
        (cluster(secretRef={"name": "x"}), "spec.secretRef.namespace"),
        (cluster(provider="a b"), "spec.provider"),
        (cluster(zone="a", zones=["b"]), "spec.zone"),
        (cluster(zones=["a", "b c"]), "spec.zones[1]"),
        (cluster(taints=[{"key": "", "effect": "NoSchedule"}]), "spec.taints[0].key"),
        (cluster(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "spec.taints[1]"),
        (cluster(resourceModels=[{"grade": 1}, {"grade": 1}]), "spec.resourceModels"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_by_field(doc: Document, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        created(doc, namespace="")

    assert any(cause.field.startswith(field) for cause in caught.value.details.causes)


def test_taints_that_start_clocks_are_stamped_and_keep_their_time() -> None:
    """D4, D6: the time a taint was added is what its clocks count from."""
    taints = [{"key": "a", "effect": effect} for effect in ("NoExecute", "PreferNoExecute", "NoSchedule")]

    made: Cluster = created(cluster(taints=taints), namespace="").object
    kept: Cluster = updated(cluster(taints=taints[:1]), made).object

    start = NOW.replace(microsecond=0)
    assert [taint.time_added for taint in made.spec.taints] == [start, start, None]
    assert [taint.time_added for taint in kept.spec.taints] == [start]


def test_a_cluster_without_models_gets_the_nine_grades_unless_the_gate_is_off() -> None:
    """D16, S003."""
    off = Settings(feature_gates={**GATES, "CustomizedClusterResourceModeling": False})

    assert len(created(cluster(), namespace="").object.spec.resource_models) == 9
    assert created(cluster(), namespace="", settings=off).object.spec.resource_models == ()


def test_the_old_zone_is_stored_as_zones() -> None:
    admitted = created(cluster(zone="a"), namespace="")

    assert (admitted.object.spec.zone, admitted.object.spec.zones) == ("", ("a",))
    assert "zone" in admitted.warnings[0]


# Taint policies


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "spec.taints"),
        ({"matchConditions": []}, "spec.taints"),
        ({"targetCluster": {}}, "spec.taintsToAdd"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}], "targetCluster": {}}, "spec.targetCluster"),
        (
            {"taints": [{"key": "a", "effect": "NoSchedule"}], "taintsToAdd": [{"key": "b", "effect": "NoExecute"}]},
            "spec.taintsToAdd",
        ),
        (
            {"taintsToAdd": [{"key": "a", "effect": "NoExecute", "addOnMatchSeconds": 0}]},
            "spec.taintsToAdd[0].addOnMatchSeconds",
        ),
        (
            {"taintsToAdd": [{"key": "a", "effect": "NoExecute", "removeOnMismatchSeconds": 0}]},
            "spec.taintsToAdd[0].removeOnMismatchSeconds",
        ),
        ({"taints": [{"key": "a", "effect": "NoExec"}]}, "spec.taints[0].effect"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "spec.taints[0]"),
        (
            {
                "taints": [{"key": "a", "effect": "NoSchedule"}],
                "addOnConditions": [{"conditionType": "Ready", "operator": "Is"}],
            },
            "spec.addOnConditions[0].operator",
        ),
    ],
)
def test_a_taint_policy_that_cannot_be_is_refused_by_field(spec: Document, field: str) -> None:
    """D3: one dialect a policy, windows of at least a second."""
    with pytest.raises(Invalid) as caught:
        created(taint_policy(**spec), namespace="")

    assert field in {cause.field for cause in caught.value.details.causes}


def test_no_execute_is_always_allowed_in_policies() -> None:
    """D3: no webhook switch."""
    condition = {"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}
    doc = taint_policy(matchConditions=[condition], taintsToAdd=[{"key": "a", "effect": "NoExecute"}])

    (taint,) = created(doc, namespace="").object.spec.taints_to_add

    assert (taint.add_on_match_seconds, taint.remove_on_mismatch_seconds) == (300, 180)


# Bindings and Works


def binding(**spec: Any) -> Document:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": resource, **spec},
    }


def test_people_may_edit_placement_and_tasks_of_a_binding() -> None:
    """D23."""
    old: Binding = created(binding()).object

    new = updated(
        binding(
            clusters=[{"name": "member2", "replicas": 1}],
            gracefulEvictionTasks=[{"fromCluster": "member1", "purgeMode": "Directly", "reason": "Manual"}],
        ),
        old,
    ).object

    assert new.metadata.generation == 2
    assert new.metadata.labels["resourcebinding.karmada.io/permanent-id"] == UID
    assert new.spec.graceful_eviction_tasks[0].from_cluster == "member1"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": [{"name": "a"}, {"name": "a"}]}, "spec.clusters[1].name"),
        ({"clusters": [{"name": "a", "replicas": -1}]}, "spec.clusters[0].replicas"),
        ({"gracefulEvictionTasks": [{"fromCluster": "a"}] * 2}, "spec.gracefulEvictionTasks[1].fromCluster"),
        (
            {"gracefulEvictionTasks": [{"fromCluster": "a", "purgeMode": "Soon"}]},
            "spec.gracefulEvictionTasks[0].purgeMode",
        ),
        ({"gracefulEvictionTasks": [{"fromCluster": "a", "reason": "x" * 33}]}, "spec.gracefulEvictionTasks[0].reason"),
    ],
)
def test_a_binding_that_cannot_be_is_refused_by_field(spec: Document, field: str) -> None:
    assert field in fields(binding(**spec))


def test_a_work_written_by_hand_is_pruned_and_marked_like_ours() -> None:
    manifest = config_map(uid="u", resourceVersion="3") | {"status": {"x": 1}}
    doc = {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {"name": "mine"},
        "spec": {"workload": {"manifests": [manifest]}},
    }

    made = created(doc).object.manifest

    assert "status" not in made
    assert "uid" not in made["metadata"]
    assert made["metadata"]["labels"] == {"work.karmada.io/permanent-id": UID}


def test_what_rules_forbid_is_said_together_with_what_types_forbid() -> None:
    doc = policy(
        placement={
            "clusterAffinity": {"clusterNames": 5},
            "clusterTolerations": [{"key": "a", "operator": "Wrong"}],
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 1}],
        },
        preemption="Sometimes",
        resourceSelectors=[],
    )

    found = fields(doc)

    assert "spec.placement.clusterAffinity.clusterNames" in found
    assert {"spec.resourceSelectors", "spec.preemption"} <= found
    assert {one for one in found if one.startswith("spec.placement.clusterTolerations[0]")}
    assert {one for one in found if one.startswith("spec.placement.spreadConstraints[0]")}


def test_a_value_of_the_wrong_type_is_blamed_once() -> None:
    (cause,) = refused(policy(resourceSelectors="all"))

    assert (cause.field, cause.reason) == ("spec.resourceSelectors", "FieldValueTypeInvalid")


@pytest.mark.parametrize(
    ("data", "wrong"), [({"a": "Yg=="}, []), ({"a": "Y\ng=="}, []), ({"a": "%%%", "b": "abc"}, ["data[a]", "data[b]"])]
)
def test_data_of_a_secret_is_base64_and_never_repeated(data: Document, wrong: list[str]) -> None:
    doc = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}
    if not wrong:
        assert created(doc).object.content["data"] == data
        return

    causes = refused(doc)

    assert [cause.field for cause in causes] == wrong
    assert not any("%%%" in cause.message for cause in causes)


@pytest.mark.parametrize(
    ("api_version", "kind", "counted"),
    [
        ("v1", "ConfigMap", 0),
        ("v1", "Secret", 0),
        ("v1", "Namespace", 0),
        ("v1", "Service", 0),
        ("apps/v1", "Deployment", 1),
    ],
)
def test_only_kinds_kubernetes_counts_have_a_generation(api_version: str, kind: str, counted: int) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c"}]}}}
    doc = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, **({"spec": spec} if counted else {})}

    made = created(doc, namespace="" if kind == "Namespace" else "default").object

    assert made.metadata.generation == counted


def test_templates_count_generations_by_their_spec() -> None:
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"spec": {"containers": [{"name": "c"}]}},
    }
    doc = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    old: Template = created(doc).object

    labelled = updated({**doc, "metadata": {"name": "web", "labels": {"a": "b"}}}, old).object
    scaled = updated({**doc, "spec": {**spec, "replicas": 2}}, old).object

    assert (labelled.metadata.generation, scaled.metadata.generation) == (1, 2)

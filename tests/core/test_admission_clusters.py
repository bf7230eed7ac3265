"""What a cluster or a policy of taints gets, and what they are refused for."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.errors import Invalid
from controlplane.apimachinery.meta import Condition
from controlplane.clusters.taints import OWNERS_ANNOTATION
from controlplane.kinds.cluster import PUBLISHED, Cluster
from controlplane.settings import GATES, Settings
from tests.builders.documents import Document, cluster, taint_policy
from tests.core.admitted import NOW, created, updated


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
        (cluster(proxyURL="http://host", proxyHeader={"a b": "x"}), "spec.proxyHeader[a b]"),
        (cluster(proxyURL="http://host", proxyHeader={"a": "x\ny"}), "spec.proxyHeader[a]"),
        (cluster(secretRef={"name": "x"}), "spec.secretRef.namespace"),
        (cluster(impersonatorSecretRef={"name": "x"}), "spec.impersonatorSecretRef.namespace"),
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


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        ({"nodeSummary": {"totalNum": -3, "readyNum": -1}}, ["nodeSummary.totalNum", "nodeSummary.readyNum"]),
        ({"nodeSummary": {"totalNum": 2, "readyNum": 3}}, ["nodeSummary.readyNum"]),
        ({"resourceSummary": {"allocatable": {"cpu": "-1"}}}, ["resourceSummary.allocatable[cpu]"]),
        ({"resourceSummary": {"allocated": {"cpu": "-1m"}}}, ["resourceSummary.allocated[cpu]"]),
        ({"resourceSummary": {"allocating": {"pods": "-1"}}}, ["resourceSummary.allocating[pods]"]),
        (
            {"resourceSummary": {"allocatableModelings": [{"grade": 1, "count": -1}, {"grade": 1, "count": 2}]}},
            ["resourceSummary.allocatableModelings[0].count", "resourceSummary.allocatableModelings[1].grade"],
        ),
        ({"remedyActions": ["", "TrafficControl", "TrafficControl"]}, ["remedyActions[0]", "remedyActions[2]"]),
        ({"conditions": [{"type": "Ready", "status": "True"}] * 2}, ["conditions[1].type"]),
        ({"conditions": [{"type": "", "status": "True"}]}, ["conditions[0].type"]),
    ],
)
def test_a_status_that_cannot_be_is_refused_by_field(status: Document, wrong: list[str]) -> None:
    made: Cluster = created(cluster(), namespace="").object

    with pytest.raises(Invalid) as caught:
        updated({**cluster(), "status": status}, made, subresource="status")

    assert [cause.field for cause in caught.value.details.causes] == [f"status.{field}" for field in wrong]


def test_a_status_as_members_have_it_is_taken() -> None:
    made: Cluster = created(cluster(), namespace="").object
    grades = [{"grade": 0, "count": 0}, {"grade": 1, "count": 2}]
    status = {
        "nodeSummary": {"totalNum": 2, "readyNum": 2},
        "resourceSummary": {"allocatable": {"cpu": "0"}, "allocated": {"cpu": "2"}, "allocatableModelings": grades},
        "remedyActions": ["TrafficControl"],
    }

    after: Cluster = updated({**cluster(), "status": status}, made, subresource="status").object

    assert after.status.node_summary is not None
    assert after.status.node_summary.ready_num == 2


def test_a_push_cluster_without_an_address_is_accepted_and_reported_as_never_asked() -> None:
    """As in the original: a Cluster may be made first and get its address and credentials later."""
    reported = {
        mode: created(cluster(syncMode=mode, apiEndpoint=""), namespace="").warnings for mode in ("Push", "Pull")
    }
    dialled = created(cluster(apiEndpoint="https://member1.example"), namespace="").warnings

    assert any("spec.apiEndpoint is empty" in one for one in reported["Push"])
    assert not any("apiEndpoint" in one for one in (*reported["Pull"], *dialled))


def test_taints_that_start_clocks_are_stamped_and_keep_their_time() -> None:
    """[prefer-no-execute], [judged-once] the time a taint was added is what its clocks count from."""
    taints = [{"key": "a", "effect": effect} for effect in ("NoExecute", "PreferNoExecute", "NoSchedule")]

    made: Cluster = created(cluster(taints=taints), namespace="").object
    kept: Cluster = updated(cluster(taints=taints[:1]), made).object

    start = NOW.replace(microsecond=0)
    assert [taint.time_added for taint in made.spec.taints] == [start, start, None]
    assert [taint.time_added for taint in kept.spec.taints] == [start]


def test_a_manifest_that_replaces_a_cluster_leaves_the_owners_of_its_taints_alone() -> None:
    """Without them a policy's taint would have no owner, and stay on for ever."""
    taints, owners = (
        [{"key": "a", "effect": "NoExecute"}],
        {OWNERS_ANNOTATION: '{"a:NoExecute":{"by":{"policy/a":""}}}'},
    )
    live = created(cluster(taints=taints), namespace="").object.with_meta(annotations=owners)

    replaced: Cluster = updated(cluster(taints=taints), live).object
    disowned: Document = {
        **cluster(taints=taints),
        "metadata": {"name": "member1", "annotations": {OWNERS_ANNOTATION: ""}},
    }

    assert replaced.metadata.annotations == owners
    assert updated(disowned, live).object.metadata.annotations == {OWNERS_ANNOTATION: ""}


def test_who_reports_one_condition_of_a_cluster_takes_none_of_ours_away() -> None:
    """Who patches or applies a status writes the list of conditions as a whole: windows counted from Ready and what
    counts in the fleet's health (Established) shall not begin again for that."""
    ours = tuple(Condition(one, "False", "Why", "so", last_transition_time=NOW) for one in PUBLISHED)
    theirs = Condition("DiskFull", "False", "Df", "", last_transition_time=NOW)
    live = created(cluster(), namespace="").object.with_status(conditions=(*ours, theirs))

    def report(*types: str) -> Cluster:
        reported = [{"type": one, "status": "True", "reason": "Df", "message": ""} for one in types]
        after: Cluster = updated(cluster() | {"status": {"conditions": reported}}, live, subresource="status").object
        return after

    assert report("Slow").status.conditions[:-1] == ours
    assert [one.type for one in report("Slow").status.conditions] == [*PUBLISHED, "Slow"]
    assert {one.type: one.status for one in report("Ready").status.conditions} == {
        **dict.fromkeys(PUBLISHED, "False"),
        "Ready": "True",
    }


def test_a_cluster_without_models_gets_the_nine_grades_unless_the_gate_is_off() -> None:
    """[resource-models], the page on resource models."""
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
        (
            {"taintsToAdd": [{"key": "a", "effect": "NoExecute", "addOnMatchSeconds": 2**31}]},
            "spec.taintsToAdd[0].addOnMatchSeconds",
        ),
        (
            {"taintsToAdd": [{"key": "a", "effect": "NoExecute", "removeOnMismatchSeconds": 2**31}]},
            "spec.taintsToAdd[0].removeOnMismatchSeconds",
        ),
        ({"taints": [{"key": "a", "effect": "NoExec"}]}, "spec.taints[0].effect"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}, "spec.taints[1]"),
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
    """[taint-policies] one dialect a policy, windows of at least a second."""
    with pytest.raises(Invalid) as caught:
        created(taint_policy(**spec), namespace="")

    assert field in {cause.field for cause in caught.value.details.causes}


def test_no_execute_is_always_allowed_in_policies() -> None:
    """[taint-policies] no webhook switch."""
    condition = {"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}
    doc = taint_policy(matchConditions=[condition], taintsToAdd=[{"key": "a", "effect": "NoExecute"}])

    (taint,) = created(doc, namespace="").object.spec.taints_to_add

    assert (taint.add_on_match_seconds, taint.remove_on_mismatch_seconds) == (300, 180)

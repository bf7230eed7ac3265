"""kubectl get shows the settings in force from the first start, and what ClusterTaintPolicies do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from apps.objects.store import store
from controlplane.kinds.configuration import columns
from controlplane.kinds.taint_policy import columns as taint_policy_columns
from tests.apps.pages import stored
from tests.builders.bare import cluster

URL = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def rows(root: Client, url: str = URL, *, include: str = "None") -> list[dict[str, Any]]:
    answer = root.get(f"{url}?includeObject={include}", HTTP_ACCEPT=TABLE)
    assert answer.status_code == 200
    names = [one["name"] for one in answer.json()["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in answer.json()["rows"]]


def test_the_settings_in_force_are_shown_although_the_object_is_not_stored(root: Client) -> None:
    stored(cluster("member1"))

    (row,) = rows(root)

    assert row["Name"] == "default"
    assert (row["Failover"], row["Tier"], row["Rates"]) == ("Off", "Normal", "0.5/0.1")
    assert (row["Rate"], row["Threshold"], row["Large"]) == ("0.5", "0.55", "10")
    assert root.get(URL, HTTP_ACCEPT="application/json").json()["items"] == []


def test_settings_that_are_not_stored_are_as_old_as_the_installation(root: Client) -> None:
    two_hours_and_a_bit = timedelta(hours=2, minutes=3)
    MigrationRecorder.Migration.objects.update(applied=store().now() - two_hours_and_a_bit)

    assert [rows(root, url)[0]["Age"] for url in (URL, f"{URL}/default")] == ["123m", "123m"]


def test_what_was_written_shows_at_once_and_is_read_as_it_was_written(root: Client) -> None:
    stored(cluster("member1"))
    written = {"metadata": {"name": "default"}, "spec": {"resourceEvictionRate": 2.0}}
    assert root.post(URL, written, content_type="application/json").status_code == 201

    for url in (URL, f"{URL}/default"):
        (row,) = rows(root, url)
        assert (row["Rates"], row["Threshold"]) == ("2/0.1", "0.55")
    read = root.get(f"{URL}/default", HTTP_ACCEPT="application/json").json()
    assert columns.IN_FORCE not in read
    table = root.get(f"{URL}?includeObject=Object", HTTP_ACCEPT=TABLE).json()
    assert columns.IN_FORCE not in table["rows"][0]["object"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {
                "targetCluster": {"clusterNames": ["member1", "member2"]},
                "matchConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False", "Unknown"]}],
                "taintsToAdd": [{"key": "not-ready", "effect": "NoExecute", "addOnMatchSeconds": 5}],
            },
            ("member1,member2", "Ready In [False,Unknown]", "not-ready:NoExecute", "5s/180s"),
        ),
        (
            {
                "targetClusters": {"labelSelector": {"matchLabels": {"site": "a"}}},
                "addOnConditions": [{"conditionType": "Ready", "operator": "NotIn", "statusValues": ["True"]}],
                "taints": [{"key": "gone", "effect": "NoSchedule"}],
            },
            ("site=a", "add: Ready NotIn [True]; remove: never", "gone:NoSchedule", ""),
        ),
        ({"taintsToAdd": [{"key": "k", "effect": "NoExecute"}]}, ("all", "always", "k:NoExecute", "300s/180s")),
    ],
)
def test_a_taint_policy_shows_what_it_does(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert tuple(one.cell({"spec": spec}, None) for one in taint_policy_columns.COLUMNS) == expected

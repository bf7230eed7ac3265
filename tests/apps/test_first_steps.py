"""The first steps of a fresh installation: who follows them to the letter has a workload that fails over."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import yaml
from django.test import Client

from apps.api.health import HEALTH
from apps.clusters.joining import create_missing
from apps.objects.configuration import base, configuration
from apps.objects.store import store
from controlplane.kinds import CLUSTER_TAINT_POLICY
from tests.apps.pages import stored
from tests.apps.test_console_pages import page
from tests.builders.objects import cluster
from tests.config.prose import PROJECT

REVIEWS = "/apis/failover.lifeboat.io/v1alpha1/placementreviews"


@pytest.fixture(autouse=True)
def checks_are_closed() -> Iterator[None]:
    """Close the connection of health checks, which pages run, before the database is dropped."""
    yield
    HEALTH.close()


def steps(root: Client) -> dict[str, str]:
    """Return the commands of the steps that are not done, by their titles."""
    return {
        title: unescape(command)
        for title, done, command in re.findall(
            r"<li><div>(?:(?!<strong>).)*<strong>([^<]*)\.</strong>(.*?)(?:<pre[^>]*>(.*?)</pre>)?</div></li>",
            page(root, "/").partition('id="steps"')[2],
            re.DOTALL,
        )
        if command
    }


def applied(command: str) -> list[Any]:
    """Return the documents that the lines of a command apply."""
    found: list[Any] = []
    for line in command.splitlines():
        assert line.startswith("kubectl apply "), line
        inline, file = re.search(r"<<< '(.*)'$", line), re.search(r"-f (docs/\S+)$", line)
        assert inline or file, line
        text = inline[1] if inline else (PROJECT / file[1]).read_text() if file else ""
        found += yaml.safe_load_all(text)
    return found


def test_the_workload_of_the_second_step_is_placed_on_the_cluster_of_the_first(root: Client) -> None:
    first, second = (steps(root)[title] for title in ("Join a cluster", "Place a workload"))
    stored(cluster(first.split()[2]))
    manifest, policy = applied(second)

    asked = {"spec": {"manifest": manifest, "placement": policy["spec"]["placement"]}}
    answer = root.post(REVIEWS, asked, content_type="application/json")

    assert answer.status_code == 201, answer.content
    clusters = answer.json()["status"]["clusters"]
    assert [one["name"] for one in clusters] == [first.split()[2]], answer.json()["status"]


def test_after_the_third_step_all_clusters_that_fail_are_left(root: Client) -> None:
    stored(cluster("berlin"))

    create_missing(store(), yaml.safe_dump_all(applied(steps(root)["Let failures evict"])), base())
    configuration().settings(reread=True)

    assert "Let failures evict" not in steps(root)
    (policy,) = store().list(CLUSTER_TAINT_POLICY)
    assert policy.spec.target_cluster is None
    assert [one.effect for one in policy.spec.taints_to_add] == ["NoExecute"]


def test_a_part_of_the_third_step_that_is_done_is_not_asked_for_again(root: Client) -> None:
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    configuration().settings(reread=True)

    (policy,) = applied(steps(root)["Let failures evict"])

    assert policy["kind"] == "ClusterTaintPolicy"

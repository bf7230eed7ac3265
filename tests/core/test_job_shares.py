"""Copies of a divided Job keep the completions that they were made with, which no member lets change."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.names import COMPLETIONS_ANNOTATION
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.kinds.work import Workload
from controlplane.propagation import job_shares
from tests.builders.objects import policy
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story

JOBS = ResourceSelector("batch/v1", "Job")


def job(uid: str = "uid-sum") -> Template:
    pods = {"template": {"spec": {"containers": [{"name": "main", "image": "sum"}], "restartPolicy": "Never"}}}
    return Template.fold(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "sum", "namespace": "default", "uid": uid},
            "spec": {"parallelism": 2, "completions": 6, **pods},
        }
    )


def sent(story: Story) -> dict[str, tuple[int, int]]:
    """Return parallelism and completions of each copy."""
    specs = {name: work.manifest["spec"] for name, work in story.works().items()}
    return {name: (spec["parallelism"], spec["completions"]) for name, spec in specs.items()}


def begun() -> tuple[Story, Template]:
    """Return a Job with two copies."""
    task = job()
    story = Story(*MEMBERS, policy("all", JOBS, placement=DIVIDED_PLACEMENT), task)
    story.place(task, member1=1, member2=1)
    assert sent(story) == {"member1": (1, 3), "member2": (1, 3)}
    return story, task


def test_a_job_that_is_scaled_keeps_its_shares() -> None:
    story, task = begun()

    story.place(task, member1=1, member2=2)

    assert sent(story) == {"member1": (1, 3), "member2": (2, 3)}


def test_the_share_of_a_lost_cluster_goes_to_the_new_copy_alone() -> None:
    story, task = begun()

    story.place(task, member2=1, member3=1)

    found = sent(story)
    assert (found["member2"], found["member3"]) == ((1, 3), (1, 3))


def test_a_lost_share_without_a_new_copy_is_refused_until_there_is_one() -> None:
    story, task = begun()

    story.place(task, member2=2)
    assert sent(story)["member2"] == (2, 6)  # its member refuses it
    story.place(task, member2=2, member3=1)

    assert sent(story)["member2"] == (2, 3)
    assert sent(story)["member3"] == (1, 3)


def test_copies_of_an_earlier_version_keep_what_their_manifests_say() -> None:
    story, _task = begun()
    stored = story.works()["member1"]
    spec = {**stored.manifest["spec"], "completions": 2}
    annotations = {key: text for key, text in stored.metadata.annotations.items() if key != COMPLETIONS_ANNOTATION}
    older = stored.with_spec(workload=Workload(({**stored.manifest, "spec": spec},))).with_meta(annotations=annotations)
    other = story.works()["member2"]
    longer = {**other.manifest, "spec": {**other.manifest["spec"], "completions": 4}}
    bare = {key: text for key, text in other.metadata.annotations.items() if key != COMPLETIONS_ANNOTATION}
    story.store.put(other.with_spec(workload=Workload((longer,))).with_meta(annotations=bare), other)

    story.edit(older)

    assert sent(story) == {"member1": (1, 2), "member2": (1, 4)}


def test_copies_of_an_earlier_job_of_the_name_say_nothing_about_shares() -> None:
    story, _task = begun()

    assert job_shares.begun(story.works(), job("uid-again")) == {}
    assert job_shares.begun(story.works(), job()) == {"member1": 3, "member2": 3}


@pytest.mark.parametrize("spec", [1, ["x"], {"completions": "three"}])
def test_a_copy_that_a_policy_has_spoiled_says_nothing_about_its_share(spec: Any) -> None:
    story, task = begun()
    stored = story.works()["member1"]
    spoiled = stored.with_spec(workload=Workload(({**stored.manifest, "spec": spec},))).with_meta(annotations={})

    assert job_shares.begun({"member1": spoiled}, task) == {}

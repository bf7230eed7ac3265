"""Rules of built-in kinds about fields that the recorded objects do not have."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.errors import Invalid
from tests.core.admitted import created, fields, updated

Document = dict[str, Any]


def claim(**spec: Any) -> Document:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": wanted}


def job(**spec: Any) -> Document:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
    template = {"metadata": {"labels": {"app": "once"}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "once"},
        "spec": {"template": template, **spec},
    }


def pod(seconds: int) -> Document:
    spec = {"terminationGracePeriodSeconds": seconds, "containers": [{"name": "main", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": spec}


def test_the_class_of_a_claim_is_chosen_once() -> None:
    old = created(claim()).object

    chosen = updated(claim(storageClassName="fast"), old).object

    assert chosen.spec["storageClassName"] == "fast"
    assert fields(claim(storageClassName="slow"), old=chosen) == {"spec"}


def test_a_pod_keeps_its_time_to_end() -> None:
    assert fields(pod(5), old=created(pod(30)).object) == {"spec"}


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"selector": {"matchLabels": {"app": "once"}}}, {"spec.selector"}),
        ({"manualSelector": True}, {"spec.selector", "spec.template.metadata.labels"}),
        (
            {"manualSelector": True, "selector": {"matchLabels": {"app": "other"}}},
            {"spec.template.metadata.labels"},
        ),
    ],
)
def test_a_job_has_a_selector_only_if_it_says_so(spec: Document, refused: set[str]) -> None:
    assert fields(job(**spec)) == refused
    assert created(job(manualSelector=True, selector={"matchLabels": {"app": "once"}})).object.spec["manualSelector"]


def test_the_refusal_of_an_edit_has_the_words_of_kubernetes_and_a_warning_says_what_to_do() -> None:
    old = created(job(completions=2)).object

    with pytest.raises(Invalid) as caught:
        updated(job(completions=3), old)

    assert [cause.message for cause in caught.value.details.causes] == ["Invalid value: 3: field is immutable"]
    assert caught.value.warnings == ("to change spec.completions, delete the object and create it again",)
    with pytest.raises(Invalid) as caught:
        updated(job(completions=2, parallelism=-1), old)
    assert caught.value.warnings == ()

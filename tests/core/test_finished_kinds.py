"""What has finished does not run a second time: Jobs of Kubernetes and of other projects [member-drift]."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from controlplane import interpret
from controlplane.clusters.lost_objects import OBJECT_LOST
from controlplane.clusters.questions import Answer
from controlplane.controllers.work_status import WorkStatus, WorkStatusSnapshot
from controlplane.engine.decision import Put
from controlplane.kinds.binding import AggregatedStatusItem
from controlplane.kinds.template import Template
from controlplane.kinds.work import FINISHED, Work
from controlplane.propagation import bindings, works
from controlplane.propagation.aggregation import counting
from controlplane.settings import Settings
from tests.builders.objects import START, applied, policy, work

Document = dict[str, Any]
LATER = START + timedelta(minutes=5)


def said(type_: str) -> Document:
    return {"conditions": [{"type": "Running", "status": "False"}, {"type": type_, "status": "True"}]}


TRAINING = tuple(f"kubeflow.org/v1 {kind}Job" for kind in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX", "MPI"))
ENDS: list[tuple[str, Document, bool]] = [
    ("argoproj.io/v1alpha1 Workflow", {"phase": "Succeeded"}, True),
    ("argoproj.io/v1alpha1 Workflow", {"phase": "Failed"}, True),
    ("argoproj.io/v1alpha1 Workflow", {"phase": "Error"}, True),
    ("argoproj.io/v1alpha1 Workflow", {"phase": "Running"}, False),
    ("argoproj.io/v1alpha1 Workflow", {"phase": ["no", "text"]}, False),
    *((kind, said("Succeeded"), True) for kind in TRAINING),
    *((kind, said("Failed"), True) for kind in TRAINING),
    *((kind, said("Restarting"), False) for kind in TRAINING),
    ("kubeflow.org/v1 PyTorchJob", {"conditions": ["no object"]}, False),
    ("kubeflow.org/v2beta1 MPIJob", said("Succeeded"), True),
    ("kubeflow.org/v2beta1 MPIJob", {**said("Failed"), "completionTime": "2026-01-01T00:00:00Z"}, True),
    ("kubeflow.org/v2beta1 MPIJob", said("Failed"), False),  # its launcher was evicted: the operator starts another
    ("trainer.kubeflow.org/v1alpha1 TrainJob", said("Complete"), True),
    ("trainer.kubeflow.org/v1alpha1 TrainJob", said("Failed"), True),
    ("trainer.kubeflow.org/v1alpha1 TrainJob", said("Suspended"), False),
    ("sparkoperator.k8s.io/v1beta2 SparkApplication", {"applicationState": {"state": "COMPLETED"}}, True),
    ("sparkoperator.k8s.io/v1beta2 SparkApplication", {"applicationState": {"state": "FAILED"}}, True),
    ("sparkoperator.k8s.io/v1beta2 SparkApplication", {"applicationState": {"state": "PENDING_RERUN"}}, False),
    ("ray.io/v1 RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, True),
    ("ray.io/v1 RayJob", {"jobDeploymentStatus": "Failed"}, True),
    ("ray.io/v1 RayJob", {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, False),
    ("apps.kruise.io/v1alpha1 BroadcastJob", said("Complete"), True),
    ("apps.kruise.io/v1alpha1 BroadcastJob", {**said("Failed"), "phase": "failed"}, True),
    ("apps.kruise.io/v1alpha1 BroadcastJob", {"phase": "running"}, False),
    ("batch.volcano.sh/v1alpha1 Job", {"state": {"phase": "Completed"}}, True),
    ("batch.volcano.sh/v1alpha1 Job", {"state": {"phase": "Failed"}}, True),
    ("batch.volcano.sh/v1alpha1 Job", {"state": {"phase": "Terminated"}}, True),
    ("batch.volcano.sh/v1alpha1 Job", {"state": {"phase": "Aborted"}}, False),  # a command resumes it
    ("batch/v1 Job", said("Complete"), True),
    ("batch/v1 Job", said("Failed"), True),
    ("v1 Pod", {"phase": "Succeeded"}, True),
    ("v1 Pod", {"phase": "Failed"}, False),  # nothing else replaces it
]


def manifest_of(kind: str, **more: Any) -> Document:
    api_version, _, name = kind.partition(" ")
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "once", "namespace": "default"}, **more}


def vanished(one: Work, last: Document | None) -> str:
    """Return the reason that Applied has after the object of a Work has disappeared from its member."""
    decided = WorkStatus().decide(WorkStatusSnapshot(one), Settings(), now=LATER, answer=Answer(404, last))
    (put,) = decided.changes
    assert isinstance(put, Put)
    (condition,) = (entry for entry in put.new.status.conditions if entry.type == "Applied")
    return str(condition.reason)


@pytest.mark.parametrize(("kind", "status", "finished"), ENDS)
def test_what_has_finished_and_is_deleted_by_its_member_is_not_applied_again(
    kind: str, status: Document, *, finished: bool
) -> None:
    one = work(manifest=manifest_of(kind)).with_status(conditions=(applied(),))

    assert vanished(one, manifest_of(kind, status=status)) == (FINISHED if finished else OBJECT_LOST)


@pytest.mark.parametrize(("kind", "status"), [(kind, status) for kind, status, finished in ENDS if finished])
def test_what_had_finished_on_a_cluster_that_is_lost_counts(kind: str, status: Document) -> None:
    api_version, _, name = kind.partition(" ")
    lost = AggregatedStatusItem("member1", status, applied=True, out_of_reach_since=START)

    assert counting([lost], final=interpret.interpreter_for(api_version, name).final) == (lost,)


def copy_of(kind: str, spec: Document) -> Document:
    """Return the spec that members are sent."""
    document = manifest_of(kind, spec=spec)
    template = Template.fold({**document, "metadata": {**document["metadata"], "uid": "uid-once"}})
    binding = bindings.create(template, policy(), gates={}, now=START)
    sent: Document = works.rendering(binding, template).manifest["spec"]
    return sent


@pytest.mark.parametrize(
    ("kind", "spec", "sent"),
    [
        ("argoproj.io/v1alpha1 Workflow", {"ttlStrategy": {"secondsAfterCompletion": 60}, "entrypoint": "a"}, {}),
        *((kind, {"runPolicy": {"ttlSecondsAfterFinished": 60}}, {"runPolicy": {}}) for kind in TRAINING),
        ("kubeflow.org/v2beta1 MPIJob", {"runPolicy": {"ttlSecondsAfterFinished": 60}}, {"runPolicy": {}}),
        ("sparkoperator.k8s.io/v1beta2 SparkApplication", {"timeToLiveSeconds": 60, "type": "Scala"}, {}),
        (
            "apps.kruise.io/v1alpha1 BroadcastJob",
            {"template": {"spec": {}}, "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60}},
            {"completionPolicy": {"type": "Always"}},
        ),
    ],
)
def test_a_member_keeps_what_has_finished_until_its_template_is_deleted(
    kind: str, spec: Document, sent: Document
) -> None:
    """A member that deletes it while it cannot be reached reports no result: then it would be created once more."""
    times = ("ttlStrategy", "timeToLiveSeconds")

    assert copy_of(kind, spec) == {**{name: spec[name] for name in spec if name not in times}, **sent}


@pytest.mark.parametrize("policy_", [None, {}, "odd", {"suspend": True}])
def test_what_has_no_time_to_live_is_sent_as_it_is(policy_: Any) -> None:
    assert copy_of("kubeflow.org/v1 JAXJob", {"runPolicy": policy_}) == {"runPolicy": policy_}

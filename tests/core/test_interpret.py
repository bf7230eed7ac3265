"""What the kinds of Kubernetes itself mean [resource-interpreter]; the golden vectors hold the breadth, these the
reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane import interpret
from controlplane.interpret import requirements
from controlplane.interpret.health import ready_replicas
from controlplane.kinds.binding import AggregatedStatusItem, TargetCluster
from controlplane.kinds.policy import DIVIDED, Placement, ReplicaSchedulingStrategy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, works
from controlplane.scheduling.completions import split
from tests.builders.objects import START, policy
from tests.builders.templates import deployment

Document = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def container(**resources: Document) -> Document:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("pod", "request_"),
    [
        ({"containers": [container(requests={"cpu": "1"}), container(requests={"cpu": "250m"})]}, {"cpu": "1250m"}),
        ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": "2"}),
        ({"containers": [container(limits={"cpu": "2"}, requests={"cpu": "1"})]}, {"cpu": "1"}),
        (
            {
                "containers": [container(requests={"cpu": "1", "memory": "1Gi"})],
                "initContainers": [container(requests={"cpu": "3"}), container(requests={"memory": "2Gi"})],
            },
            {"cpu": "3", "memory": "2Gi"},
        ),
        (
            {
                "containers": [container(requests={"cpu": "1"})],
                "initContainers": [{**container(requests={"cpu": "1"}), "restartPolicy": "Always"}],
            },
            {"cpu": "2"},
        ),
        ({"containers": [container(requests={"cpu": "1"})], "overhead": {"cpu": "100m"}}, {"cpu": "1100m"}),
    ],
    ids=["sum", "limit alone", "request first", "largest init container", "sidecars stay", "overhead"],
)
def test_a_replica_asks_for_what_its_pod_needs_at_its_peak(pod: Document, request_: dict[str, str]) -> None:
    needs = requirements.of_pod(pod)

    assert needs is not None
    assert needs.resource_request == request_


def test_a_pod_without_wishes_asks_for_nothing() -> None:
    assert requirements.of_pod({"containers": [container()]}) is None


def test_revising_replicas_shares_everything_else() -> None:
    doc = deployment().document()
    revise = interpret.interpreter_for("apps/v1", "Deployment").revise
    assert revise is not None

    revised = revise(doc, 7)

    assert revised["spec"]["replicas"] == 7
    assert doc["spec"]["replicas"] == 3
    assert revised["spec"]["template"] is doc["spec"]["template"]


def test_zero_ready_replicas_are_carried_back_as_zero() -> None:
    """[graceful-timeout] members leave zero out, and fewer ready replicas than asked must not look like health."""
    reflect = interpret.interpreter_for("apps/v1", "Deployment").reflect
    assert reflect is not None

    status = reflect({"metadata": {"generation": 2}, "status": {"observedGeneration": 2, "replicas": 3}})

    assert status is not None
    assert ready_replicas(status) == 0
    assert status["readyReplicas"] == 0


@pytest.mark.parametrize(("seen", "advances"), [(2, True), (1, False)])
def test_a_templates_observed_generation_waits_for_every_member(seen: int, advances: bool) -> None:
    aggregate = interpret.interpreter_for("apps/v1", "Deployment").aggregate
    assert aggregate is not None
    caught_up = {"replicas": 1, "observedGeneration": 5, "generation": 5, "resourceTemplateGeneration": 2}
    items = [
        AggregatedStatusItem("member1", caught_up, True),
        AggregatedStatusItem("member2", {**caught_up, "resourceTemplateGeneration": seen}, True),
    ]

    status = aggregate({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}, items, NOW)

    assert (status["observedGeneration"] == 2) is advances
    assert status["replicas"] == 2


def test_a_finished_job_stays_finished() -> None:
    aggregate = interpret.interpreter_for("batch/v1", "Job").aggregate
    assert aggregate is not None
    done = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 3}

    assert aggregate({"status": done}, [AggregatedStatusItem("member1", {"active": 1}, True)], NOW) == done


EARLY, LATE = "2026-01-01T00:00:01Z", "2026-01-01T00:00:09Z"


@pytest.mark.parametrize(
    ("before", "starts", "start"),
    [
        (None, (LATE, EARLY), EARLY),
        (None, (LATE, None), None),
        (LATE, (EARLY, LATE), LATE),
        (EARLY, (LATE, None), EARLY),
        (EARLY, (), EARLY),
    ],
    ids=["the first of all", "not started everywhere", "an earlier one later", "the first is lost", "none reports"],
)
def test_the_start_of_a_job_never_changes(
    before: str | None, starts: tuple[str | None, ...], start: str | None
) -> None:
    aggregate = interpret.interpreter_for("batch/v1", "Job").aggregate
    assert aggregate is not None
    reports = [{"active": 1, "startTime": one} if one else None for one in starts]
    items = [AggregatedStatusItem(f"member{index}", report, True) for index, report in enumerate(reports)]

    status = aggregate({"status": {"startTime": before} if before else {}}, items, NOW)

    assert status.get("startTime") == start


def test_a_job_that_is_about_to_end_on_its_members_has_no_condition_yet() -> None:
    """Of a template, SuccessCriteriaMet is said together with Complete: while one member runs, it may still fail."""
    aggregate = interpret.interpreter_for("batch/v1", "Job").aggregate
    assert aggregate is not None
    met = {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}
    ended = {"conditions": [*met["conditions"], {"type": "Complete", "status": "True"}]}

    def types(*reports: Document) -> list[str]:
        items = [AggregatedStatusItem(f"member{index}", report, True) for index, report in enumerate(reports)]
        return [one["type"] for one in aggregate({}, items, NOW).get("conditions", ())]

    assert types(met, met) == []
    assert types(ended, met) == []
    assert types(ended, ended) == ["Complete", "SuccessCriteriaMet"]


def test_an_unknown_kind_has_no_rules() -> None:
    knows = interpret.interpreter_for("example.com/v1", "Widget")

    assert knows.replicas is None
    assert knows.healthy is None


DIVIDED_WORK = Placement(replica_scheduling=ReplicaSchedulingStrategy(replica_scheduling_type=DIVIDED))


def job(completions: int | None, *, parallelism: int = 6, kind: str = "Job") -> Template:
    spec = {"parallelism": parallelism, "replicas": 6, "template": {"spec": {"containers": []}}}
    return Template.fold(
        {
            "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
            "kind": kind,
            "metadata": {"name": "sum", "namespace": "default", "uid": "uid-job"},
            "spec": spec if completions is None else {**spec, "completions": completions},
        }
    )


def test_a_divided_jobs_completions_follow_its_replicas() -> None:
    template = job(9)
    binding = bindings.create(template, policy(placement=DIVIDED_WORK), gates={}, now=START)
    targets = [TargetCluster("member1", 4), TargetCluster("member2", 2)]

    shares = split(binding, template, targets)
    common = works.rendering(binding, template)
    made = works.render(common, targets[0], completions=shares["member1"], now=START)

    assert shares == {"member1": 6, "member2": 3}
    assert (made.manifest["spec"]["completions"], made.manifest["spec"]["parallelism"]) == (6, 4)


@pytest.mark.parametrize(
    ("replicas", "begun", "shares"),
    [
        pytest.param((4, 2), {"member1": 3, "member2": 6}, {"member1": 3, "member2": 6}, id="copies keep their shares"),
        pytest.param((0, 0), {"member1": 3, "member2": 6}, {"member1": 3, "member2": 6}, id="also while it is paused"),
        pytest.param((3, 3), {"member1": 4}, {"member1": 4, "member2": 5}, id="a new copy gets the rest"),
        pytest.param((3, 3), {"member1": 9}, {"member1": 9, "member2": 0}, id="a new copy without a rest"),
        pytest.param((6,), {"member1": 4, "member3": 5}, {"member1": 9}, id="a lost share without a new copy"),
        pytest.param((6, 3), {"member1": 7, "member2": 5}, {"member1": 6, "member2": 3}, id="fewer of an elastic Job"),
    ],
)
def test_copies_of_a_job_keep_the_completions_that_they_began_with(
    replicas: tuple[int, ...], begun: dict[str, int], shares: dict[str, int]
) -> None:
    template = job(9)
    binding = bindings.create(template, policy(placement=DIVIDED_WORK), gates={}, now=START)
    targets = [TargetCluster(f"member{number}", count) for number, count in enumerate(replicas, 1)]

    assert split(binding, template, targets, begun) == shares


def test_a_job_that_begins_paused_runs_no_more_completions_than_it_asks_for() -> None:
    template = job(9, parallelism=0)
    binding = bindings.create(template, policy(placement=DIVIDED_WORK), gates={}, now=START)

    shares = split(binding, template, [TargetCluster("member1"), TargetCluster("member2")])

    assert sum(shares.values()) == 9


@pytest.mark.parametrize(
    ("template", "placement"),
    [
        pytest.param(job(9), Placement(), id="of a duplicated Job"),
        pytest.param(job(None), DIVIDED_WORK, id="of a Job without completions"),
        pytest.param(job(9, kind="Deployment"), DIVIDED_WORK, id="of a Deployment"),
        pytest.param(job(9, kind="StatefulSet"), DIVIDED_WORK, id="of a StatefulSet"),
    ],
)
def test_completions_are_not_divided(template: Template, placement: Placement) -> None:
    binding = bindings.create(template, policy(placement=placement), gates={}, now=START)

    assert split(binding, template, [TargetCluster("member1", 6)]) == {}


SAYS_NOTHING: Document | None = None
WHOLE = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}
ENDED = {"conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "True"}]}


@pytest.mark.parametrize(
    ("kind", "doc", "reports", "status"),
    [
        ("PersistentVolume", {}, [{"phase": "Bound"}, SAYS_NOTHING], {"phase": "Pending"}),
        ("PersistentVolume", {"status": {"phase": "Bound", "reason": "r"}}, [{"phase": "Bound"}], {"phase": "Bound"}),
        ("PersistentVolumeClaim", {}, [{"phase": "Bound"}, SAYS_NOTHING], {"phase": "Bound"}),
        (
            "PersistentVolumeClaim",
            {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}},
            [{"phase": "Bound", "capacity": {"storage": "2Gi"}}],
            {"phase": "Bound"},
        ),
        ("Service", {"spec": {"type": "LoadBalancer"}, "status": {"conditions": [{"type": "X"}]}}, [WHOLE], WHOLE),
        ("Service", {"spec": {"type": "ClusterIP"}, "status": {"conditions": []}}, [WHOLE], {"conditions": []}),
    ],
    ids=[
        "a volume not reported yet is pending",
        "a volume's reason was of one member",
        "a claim not reported yet does not count",
        "a claim's capacity was of one member",
        "a Service has the addresses of all members and nothing else",
        "a Service without addresses keeps what it says",
    ],
)
def test_a_template_says_of_its_members_only_what_holds_of_all(
    kind: str, doc: Document, reports: list[Document | None], status: Document
) -> None:
    aggregate = interpret.interpreter_for("v1", kind).aggregate
    assert aggregate is not None

    items = [AggregatedStatusItem(f"member{index}", report, True) for index, report in enumerate(reports)]

    assert aggregate(doc, items, NOW) == status


def test_a_job_ended_as_the_first_condition_that_says_so() -> None:
    aggregate = interpret.interpreter_for("batch/v1", "Job").aggregate
    assert aggregate is not None

    ended = aggregate({}, [AggregatedStatusItem("member1", ENDED, True)], NOW)

    assert [one["type"] for one in ended["conditions"]] == ["Complete"]


def test_an_ingress_names_the_secret_of_each_host() -> None:
    depends = interpret.interpreter_for("networking.k8s.io/v1", "Ingress").dependencies
    assert depends is not None
    tls = [{"secretName": "b"}, {"hosts": ["a.b"]}, {"secretName": "a"}, {"secretName": "b"}]

    assert [one.name for one in depends({"spec": {"tls": tls}})] == ["b", "a", "b"]

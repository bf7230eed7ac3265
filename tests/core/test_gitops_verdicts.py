"""What Argo CD and Flux make of templates, policies and bindings, from created to healthy, and in a failover."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
import pytest

from controlplane.admission.admit import admit_create
from controlplane.apimachinery.meta import Object
from controlplane.kind import KINDS
from controlplane.kinds.binding import GracefulEvictionTask, TargetCluster, origin
from controlplane.kinds.policy import Placement, ResourceSelector
from controlplane.kinds.template import Template
from controlplane.settings import Settings
from tests.builders import templates
from tests.builders.objects import START, cluster, policy
from tests.core import argo_health, argo_rules, kstatus
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story

DEADLINE: Final = 600  # seconds
TIME: Final = "2026-01-01T00:00:00Z"


def template(api_version: str, kind: str, spec: dict[str, Any], **more: Any) -> Template:
    return templates.template(kind, "web", version=api_version, spec=spec, **more)


def deployment(**spec: Any) -> Template:
    containers = {"spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    return template(
        "apps/v1", "Deployment", {"replicas": 3, "progressDeadlineSeconds": DEADLINE, "template": containers, **spec}
    )


def started(one: Template, *, placement: Placement = DIVIDED_PLACEMENT) -> Story:
    return Story(*MEMBERS, policy("all", ResourceSelector(one.api_version, one.kind), placement=placement), one)


def seen(one: Object) -> tuple[str, str]:
    """Return the verdicts of Argo CD and Flux.

    Raises AssertionError if Argo CD's published rule, where it is at hand, judges otherwise than our reading of it.
    """
    unfold = getattr(one, "unfold", None)
    doc = msgspec.to_builtins(one if unfold is None else unfold())
    argo = argo_health.health(doc)
    assert argo_rules.health(doc) in (None, argo), doc
    return argo, kstatus.status(doc)


def verdict(story: Story, one: Template) -> tuple[str, str]:
    return seen(story.template(one))


def runs(story: Story, name: str, wanted: int, *, ready: int | None = None, generation: int = 1) -> None:
    """Let a member report a copy of a Deployment that was made of this generation of the template."""
    count = wanted if ready is None else ready
    counts = {"replicas": wanted, "updatedReplicas": wanted, "readyReplicas": count, "availableReplicas": count}
    made_from = {"generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": generation}
    story.report(name, "Healthy" if count == wanted else "Unhealthy", **counts, **made_from)


GOES_ON = (argo_health.PROGRESSING, kstatus.IN_PROGRESS)
WELL = (argo_health.HEALTHY, kstatus.CURRENT)
BROKEN = (argo_health.DEGRADED, kstatus.FAILED)


def test_a_deployment_is_healthy_when_all_its_replicas_run_in_all_members() -> None:
    web = deployment()
    story = started(web)
    assert verdict(story, web) == GOES_ON
    story.place(web, member1=2, member2=1)
    assert verdict(story, web) == GOES_ON
    runs(story, "member1", 2)
    assert verdict(story, web) == GOES_ON
    runs(story, "member2", 1, ready=0)
    assert verdict(story, web) == GOES_ON

    runs(story, "member2", 1)

    assert verdict(story, web) == WELL
    assert story.again() == 0


def healthy() -> tuple[Story, Template]:
    web = deployment()
    story = started(web)
    story.place(web, member1=2, member2=1)
    runs(story, "member1", 2)
    runs(story, "member2", 1)
    return story, web


def test_a_new_version_is_healthy_when_every_member_runs_it() -> None:
    story, web = healthy()
    live = story.template(web)

    story.edit(live.with_content({"spec": {**live.spec, "minReadySeconds": 1}}))
    assert verdict(story, web) == GOES_ON
    runs(story, "member1", 2, generation=2)
    assert verdict(story, web) == GOES_ON
    runs(story, "member2", 1, generation=2)

    assert verdict(story, web) == WELL


def test_a_failover_goes_on_until_the_new_replicas_run() -> None:
    story, web = healthy()

    story.edit(cluster("member1", ready="False"))  # its eviction may be held here
    assert verdict(story, web) == GOES_ON
    story.place(web, (GracefulEvictionTask("member1", reason="TaintUntolerated"),), member2=3)
    assert verdict(story, web) == GOES_ON
    runs(story, "member2", 3)

    assert verdict(story, web) == WELL


def test_a_version_without_progress_has_failed_after_its_deadline_and_recovers_with_progress() -> None:
    web = deployment()
    story = started(web)
    story.place(web, member1=2, member2=1)
    runs(story, "member1", 2, ready=0)
    runs(story, "member2", 1, ready=0)

    story.later(seconds=DEADLINE - 1)
    assert verdict(story, web) == GOES_ON
    story.later(seconds=1)
    assert verdict(story, web) == BROKEN
    runs(story, "member2", 1)
    assert verdict(story, web) == GOES_ON
    runs(story, "member1", 2)

    assert verdict(story, web) == WELL


def test_progress_in_any_member_moves_the_deadline() -> None:
    web = deployment()
    story = started(web)
    story.place(web, member1=2, member2=1)
    runs(story, "member1", 2, ready=0)
    runs(story, "member2", 1)
    story.later(seconds=DEADLINE - 1)
    runs(story, "member1", 2, ready=1)

    story.later(seconds=DEADLINE - 1)

    assert verdict(story, web) == GOES_ON
    story.later(seconds=1)
    assert verdict(story, web) == BROKEN


def test_pods_that_fail_after_a_complete_rollout_are_no_failed_rollout() -> None:
    story, web = healthy()

    runs(story, "member1", 2, ready=0)
    story.later(seconds=2 * DEADLINE)

    assert verdict(story, web) == GOES_ON


@pytest.mark.parametrize(
    ("spec", "ready", "available"),
    [
        ({"replicas": 4}, 3, "True"),  # 25 % may be unavailable
        ({"replicas": 4}, 2, "False"),
        ({"replicas": 3}, 2, "False"),
        ({"replicas": 3, "strategy": {"rollingUpdate": {"maxUnavailable": 1}}}, 2, "True"),
        ({"replicas": 4, "strategy": {"type": "Recreate"}}, 3, "False"),
        ({"replicas": 4, "strategy": {"type": "Recreate"}}, 4, "True"),
    ],
)
def test_available_is_what_kubernetes_calls_so(spec: dict[str, Any], ready: int, available: str) -> None:
    web = deployment(**spec)
    story = started(web)
    story.place(web, member1=spec["replicas"])

    runs(story, "member1", spec["replicas"], ready=ready)

    conditions = {one["type"]: one for one in story.template(web).status["conditions"]}
    assert conditions["Available"]["status"] == available


def test_a_paused_deployment_is_suspended_and_has_no_deadline() -> None:
    web = deployment(paused=True)
    story = started(web)
    story.place(web, member1=3)
    runs(story, "member1", 3, ready=0)

    story.later(seconds=2 * DEADLINE)

    assert verdict(story, web) == (argo_health.SUSPENDED, kstatus.IN_PROGRESS)


def test_copies_of_a_deployment_are_healthy_for_argo_cd_and_too_many_for_flux() -> None:
    """kstatus takes replicas beyond spec.replicas for old ones that still have to end."""
    web = deployment()
    story = started(web, placement=Placement())
    story.place(web, member1=3, member2=3)
    runs(story, "member1", 3)
    assert verdict(story, web) == GOES_ON

    runs(story, "member2", 3)

    assert verdict(story, web) == (argo_health.HEALTHY, kstatus.IN_PROGRESS)


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Case(NamedTuple):
    """A template on member1, and the verdicts on it: created, when it was applied, after a report."""

    api_version: str
    kind: str
    spec: dict[str, Any]
    created: tuple[str, str]
    report: dict[str, Any]
    reported: tuple[str, str]


def _true(*types: str) -> list[dict[str, Any]]:
    return [{"type": one, "status": "True", "lastTransitionTime": TIME} for one in types]


ADDRESS = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}
OBSERVED = {"generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": 1}
SET = {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}}
COUNTS = {"replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "updatedReplicas": 3, "availableReplicas": 3}
NODES = ("currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberReady", "updatedNumberScheduled")
HEALTHY, PROGRESSING, CURRENT = argo_health.HEALTHY, argo_health.PROGRESSING, kstatus.CURRENT
RUNS = {"active": 1, "startTime": TIME}

CASES = {
    "StatefulSet": Case("apps/v1", "StatefulSet", SET, GOES_ON, {**COUNTS, **OBSERVED}, WELL),
    "StatefulSet, one not ready": Case(
        "apps/v1", "StatefulSet", SET, GOES_ON, {**COUNTS, "readyReplicas": 2, **OBSERVED}, GOES_ON
    ),
    "DaemonSet": Case("apps/v1", "DaemonSet", {}, GOES_ON, {**dict.fromkeys(NODES, 2), **OBSERVED}, WELL),
    # Flux takes a Job that runs for ready, as kstatus says.
    "Job runs": Case("batch/v1", "Job", {}, GOES_ON, RUNS, (PROGRESSING, CURRENT)),
    "Job complete": Case("batch/v1", "Job", {}, GOES_ON, {**RUNS, "conditions": _true("Complete")}, WELL),
    "Job failed": Case("batch/v1", "Job", {}, GOES_ON, {**RUNS, "conditions": _true("Failed")}, BROKEN),
    "Job suspended": Case(
        *("batch/v1", "Job", {"suspend": True}, GOES_ON),
        {"conditions": _true("Suspended")},
        (argo_health.SUSPENDED, CURRENT),
    ),
    "CronJob": Case("batch/v1", "CronJob", {}, WELL, {}, WELL),
    "CronJob failed": Case(
        *("batch/v1", "CronJob", {}, WELL),
        {"lastScheduleTime": "2026-01-02T00:00:00Z", "lastSuccessfulTime": TIME},
        (argo_health.DEGRADED, CURRENT),
    ),
    "CronJob suspended": Case(
        "batch/v1", "CronJob", {"suspend": True}, (argo_health.SUSPENDED, CURRENT), {}, (argo_health.SUSPENDED, CURRENT)
    ),
    "Service": Case("v1", "Service", {}, WELL, {}, WELL),
    # kstatus asks for spec.clusterIP, which every member gives to its own copy.
    "LoadBalancer": Case("v1", "Service", {"type": "LoadBalancer"}, GOES_ON, ADDRESS, (HEALTHY, kstatus.IN_PROGRESS)),
    "Ingress": Case("networking.k8s.io/v1", "Ingress", {}, (PROGRESSING, CURRENT), ADDRESS, WELL),
    "PersistentVolumeClaim": Case("v1", "PersistentVolumeClaim", {}, GOES_ON, {"phase": "Bound"}, WELL),
    "PersistentVolumeClaim lost": Case(
        *("v1", "PersistentVolumeClaim", {}, GOES_ON),
        {"phase": "Lost"},
        (argo_health.DEGRADED, kstatus.IN_PROGRESS),
    ),
    "HorizontalPodAutoscaler": Case(
        *("autoscaling/v2", "HorizontalPodAutoscaler", {}, (PROGRESSING, CURRENT)),
        {"currentReplicas": 3, "desiredReplicas": 3},
        WELL,
    ),
    "ConfigMap": Case("v1", "ConfigMap", {}, (argo_health.NO_RULE, CURRENT), {}, (argo_health.NO_RULE, CURRENT)),
}


def test_a_claim_is_bound_when_it_is_bound_in_every_member() -> None:
    claim = template("v1", "PersistentVolumeClaim", {}, status={"phase": "Pending"})
    story = started(claim, placement=Placement())
    story.place(claim, member1=0, member2=0)

    story.report("member1", **{"phase": "Bound"})
    assert verdict(story, claim) == GOES_ON
    story.report("member2", **{"phase": "Bound"})

    assert verdict(story, claim) == WELL


@pytest.mark.parametrize("row", CASES)
def test_a_template_is_judged_by_what_its_member_reports(row: str) -> None:
    case = CASES[row]
    initial = {"status": {"phase": "Pending"}} if case.kind == "PersistentVolumeClaim" else {}  # by admission
    one = template(case.api_version, case.kind, case.spec, **initial)
    story = started(one, placement=Placement())
    assert verdict(story, one) == case.created
    story.place(one, member1=case.spec.get("replicas", 0))
    assert verdict(story, one) == case.created

    story.report("member1", **case.report)

    assert verdict(story, one) == case.reported
    assert story.again() == 0


def test_a_new_claim_is_pending() -> None:
    claim = KINDS["PersistentVolumeClaim"]
    doc = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": CLAIM}

    made = admit_create(claim, doc, namespace="default", settings=Settings(), now=START, uid="1").object

    assert seen(made) == GOES_ON


def test_policies_are_current_as_soon_as_they_are_stored() -> None:
    assert seen(policy("all")) == (argo_health.NO_RULE, CURRENT)


@pytest.mark.parametrize(("ready", "flux"), [("True", CURRENT), ("False", kstatus.IN_PROGRESS)])
def test_a_cluster_is_current_while_it_is_ready(ready: str, flux: str) -> None:
    assert seen(cluster("member1", ready=ready)) == (argo_health.NO_RULE, flux)


def test_a_work_is_current_whatever_its_member_says() -> None:
    web = deployment()
    story = started(web)
    story.place(web, member1=3)

    for applied in ("False", "True"):
        story.report("member1", applied=applied)
        assert seen(story.works()["member1"]) == (argo_health.NO_RULE, CURRENT)


def test_a_binding_is_healthy_when_each_of_its_clusters_is() -> None:
    web = deployment()
    story = started(web)

    def judged() -> tuple[str, str]:
        found = story.binding(web)
        assert found is not None
        return seen(found)

    assert judged() == (PROGRESSING, CURRENT)
    story.place(web, member1=2, member2=1)
    runs(story, "member1", 2)
    runs(story, "member2", 1)
    assert judged() == WELL
    before: Any = story.binding(web)
    task = GracefulEvictionTask("member1", reason="TaintUntolerated")
    moved = before.with_spec(clusters=(TargetCluster("member2", 3),), graceful_eviction_tasks=(task,))
    story.edit(origin.with_departures(moved, before, now=story.now))
    assert judged() == (PROGRESSING, CURRENT)  # the copy on member1 counts until its task is cleared
    story.place(web, member2=3)
    story.remove_from_member("member1")
    assert judged() == WELL
    runs(story, "member2", 3, ready=1)
    assert judged() == (argo_health.DEGRADED, CURRENT)

"""Every area of golden vectors in the repository agrees, or differs for a reason that is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import runner
from tests.conformance.areas import AREAS
from tests.conformance.compare import equivalent

FILES = runner.vector_files(runner.HERE)


@pytest.mark.parametrize("area", FILES)
def test_every_vector_agrees_or_differs_for_a_stated_reason(area: str) -> None:
    if area not in AREAS:
        pytest.skip("nothing runs this area yet")

    report = runner.check(area, FILES[area])

    assert not report.failures[: runner.SHOWN_FAILURES], f"{report}"
    assert report.passed > 0


def test_every_registered_area_has_vectors() -> None:
    assert set(AREAS) <= set(FILES)


def _run(vectors: Path, areas: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.conformance"],
        capture_output=True,
        text=True,
        check=False,
        cwd=runner.HERE.parents[1],
        env={"CONFORMANCE_VECTORS": str(vectors), "CONFORMANCE_AREAS": areas},
    )


def _vector(canonical: str) -> str:
    expect = {"canonical": canonical, "format": "DecimalSI", "value": 1, "milliValue": 500, "sign": 1, "isZero": False}
    return json.dumps({"id": "case-1", "input": {"op": "parse", "s": "0.5"}, "expect": expect}) + "\n"


def test_a_wrong_expectation_fails_the_run_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("0.5"))

    done = _run(tmp_path, "quantity")

    assert done.returncode == 1
    assert done.stdout == "quantity: 0 passed, 1 failed, 0 differ\n"
    assert "case-1" in done.stderr
    assert "500m" in done.stderr


def test_a_right_expectation_passes(tmp_path: Path) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("500m"))

    done = _run(tmp_path, "quantity")

    assert (done.returncode, done.stdout) == (0, "quantity: 1 passed, 0 failed, 0 differ\n")


@pytest.mark.parametrize("area", ["names", "no_such_area"])
def test_a_named_area_without_file_or_runner_fails_the_run(tmp_path: Path, area: str) -> None:
    (tmp_path / "quantity.jsonl").write_text(_vector("500m"))

    done = _run(tmp_path, area)

    assert done.returncode == 1
    assert area in done.stderr


# Of faults of the original that are not copied, only what it really gives is excused.
READ = {"canonical": "-43495133806592m", "format": "BinarySI", "sign": -1, "isZero": False}
EXCUSED = {
    "cut to 64 bits": ({"op": "parse", "s": "-40.508Gi"}, READ | {"value": -6601645658, "milliValue": -6601645659171}),
    "no suffix beyond E": (
        {"op": "mul", "a": "250000P", "n": 4},
        {"result": "1", "format": "DecimalSI", "value": 3875820019684212736, "milliValue": 0},
    ),
}
WRONG = {
    "not what is left of it": (
        {"op": "parse", "s": "-40.508Gi"},
        READ | {"value": -6601645659, "milliValue": -6601645659171},
    ),
    "no suffix": ({"op": "mul", "a": "3k", "n": 1}, {"result": "3", "format": "DecimalSI", "value": 3000}),
}


@pytest.mark.parametrize(("case", "excused"), [*((one, True) for one in EXCUSED), *((one, False) for one in WRONG)])
def test_a_fault_of_the_original_excuses_what_it_gives_and_nothing_else(
    tmp_path: Path, case: str, excused: bool
) -> None:
    given, expect = (EXCUSED | WRONG)[case]
    path = tmp_path / "quantity.jsonl"
    path.write_text(json.dumps({"id": case, "input": given, "expect": expect}))

    report = runner.check("quantity", path)

    assert (report.passed, report.reasons.total(), len(report.failures)) == (0, int(excused), int(not excused))


def test_absent_and_empty_are_one_when_documents_are_compared() -> None:
    assert equivalent({"a": 1, "b": [], "c": {"d": None}}, {"a": 1})
    assert equivalent([{"name": "x", "replicas": 0}], ({"name": "x"},))
    assert not equivalent({"a": 1}, {"a": 2})
    assert not equivalent([1], [1, 2])


BROKEN = {
    "no JSON": ('{"id": "a"', "one JSON object a line"),
    "no object": ("[1]", "no id, input, expect"),
    "no expectation": ('{"id": "a", "input": {}}', "no expect"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_line_that_is_no_vector_fails_by_its_number_and_the_others_are_checked(tmp_path: Path, case: str) -> None:
    line, said = BROKEN[case]
    (tmp_path / "quantity.jsonl").write_text("\n" + line + "\n" + _vector("500m"))

    done = _run(tmp_path, "")

    assert (done.returncode, done.stdout) == (1, "quantity: 1 passed, 1 failed, 0 differ\n")
    assert "line 2 of quantity.jsonl" in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_unpacked_fails_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "quantity.jsonl.gz").write_bytes(b"no gzip")

    done = _run(tmp_path, "")

    assert (done.returncode, done.stdout) == (1, "quantity: 0 passed, 1 failed, 0 differ\n")
    assert "Not a gzipped file" in done.stderr


def _webhook(kind: str, spec: dict[str, object], errors: list[tuple[str, str]]) -> dict[str, object]:
    group = "policy.karmada.io/v1alpha1" if kind == "ClusterTaintPolicy" else "cluster.karmada.io/v1alpha1"
    doc = {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    reported = [{"type": f"FieldValue{type_}", "field": field} for type_, field in errors]
    return {
        "id": "case-1",
        "input": {"operation": "CREATE", "kind": kind, "namespace": "", "object": doc},
        "expect": {"allowed": not reported, "errors": reported},
    }


def _cluster(effect: str, bound: str = "1Gi") -> dict[str, object]:
    models = [
        {"grade": 0, "ranges": [{"name": "memory", "min": "0", "max": bound}]},
        {"grade": 1, "ranges": [{"name": "memory", "min": bound, "max": "9223372036854775807"}]},
    ]
    taints = [{"key": "k", "effect": effect}]
    return {"syncMode": "Pull", "taints": taints, "resourceModels": models}


CONTIGUOUS = ("Invalid", "spec.resourceModels")
EFFECT = ("NotSupported", "spec.taints[0].effect")
ADDED = {"addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["False"]}]}
TWICE = {**ADDED, "taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}]}
FORBIDDEN = [("Forbidden", "spec.taints[0]"), ("Forbidden", "spec.taints[1]")]
ADMITTED = {
    "one reason": (_webhook("Cluster", _cluster("PreferNoSchedule"), [EFFECT]), True),
    "two reasons at once": (_webhook("Cluster", _cluster("PreferNoExecute", "100Ti"), [EFFECT, CONTIGUOUS]), True),
    "an unknown effect": (_webhook("Cluster", _cluster("Foo"), []), False),
    "bounds equal to the original": (_webhook("Cluster", _cluster("NoExecute", "99Ti"), [CONTIGUOUS]), False),
    "taints twice that may not be": (
        _webhook("ClusterTaintPolicy", TWICE, [*FORBIDDEN, ("Duplicate", "spec.taints[0]")]),
        True,
    ),
}


@pytest.mark.parametrize("case", ADMITTED)
def test_differences_of_admission_add_up_and_excuse_nothing_beside_them(tmp_path: Path, case: str) -> None:
    vector, excused = ADMITTED[case]
    path = tmp_path / "webhook.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("webhook", path)

    assert (report.reasons.total(), len(report.failures)) == (int(excused), int(not excused)), report.failures


def _rollout(made_from: int, expected: int | None) -> dict[str, object]:
    doc = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x", "generation": 3}}
    said = {"replicas": 1, "generation": 1, "observedGeneration": 1, "resourceTemplateGeneration": made_from}
    items = [{"clusterName": "member1", "status": said}]
    given = {"operation": "AggregateStatus", "object": doc, "aggregatedStatus": items, "now": "2026-01-01T00:00:00Z"}
    return {"id": "case-1", "input": given, "expect": {"status": {"replicas": 1, "observedGeneration": expected}}}


@pytest.mark.parametrize(
    ("vector", "came_out"),
    [
        (_rollout(3, 3), (1, 0, 0)),
        (_rollout(1, 3), (0, 1, 0)),
        (_rollout(1, None), (1, 0, 0)),
        (_rollout(3, 2), (0, 0, 1)),
    ],
    ids=["caught up", "the original does not ask what it was made from", "behind", "anything else"],
)
def test_a_stateful_set_that_is_behind_its_template_is_followed(
    tmp_path: Path, vector: dict[str, object], came_out: tuple[int, int, int]
) -> None:
    path = tmp_path / "interpreter.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("interpreter", path)

    assert (report.passed, report.reasons.total(), len(report.failures)) == came_out, report.failures


@pytest.mark.parametrize(("url", "came_out"), [("u", (0, 1, 0)), ("other", (0, 0, 1))], ids=["left out", "changed"])
def test_a_helm_charts_observed_generation_is_carried_back(
    tmp_path: Path, url: str, came_out: tuple[int, int, int]
) -> None:
    """The original leaves it out, so that it never sees the chart as rolled out."""
    chart = {"apiVersion": "source.toolkit.fluxcd.io/v1beta2", "kind": "HelmChart", "metadata": {"generation": 2}}
    given = {"operation": "InterpretStatus", "object": {**chart, "status": {"url": "u", "observedGeneration": 2}}}
    vector = {"id": "case-1", "input": given, "expect": {"status": {"url": url, "generation": 2}}}
    path = tmp_path / "lua_thirdparty.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("lua_thirdparty", path)

    assert (report.passed, report.reasons.total(), len(report.failures)) == came_out, report.failures


@pytest.mark.parametrize(("last", "excused"), [(-1, True), (1, False)])
def test_only_a_negative_number_of_workers_is_excused(tmp_path: Path, last: int, excused: bool) -> None:
    def service(*counts: int) -> dict[str, object]:
        spec = {"rayClusterConfig": {"workerGroupSpecs": [{"replicas": count} for count in counts]}}
        return {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": spec}

    given = {"operation": "ReviseReplica", "object": service(1, 1, 0), "replicas": 2}
    vector = {"id": "case-1", "input": given, "expect": {"object": service(1, 1, last)}}
    path = tmp_path / "lua_thirdparty.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("lua_thirdparty", path)

    assert (report.reasons.total(), len(report.failures)) == (int(excused), int(not excused)), report.failures


def _aggregated(kind: str, old: object, reports: list[object], expect: object) -> dict[str, object]:
    version = {
        "HelmRelease": "helm.toolkit.fluxcd.io/v2beta1",
        "BroadcastJob": "apps.kruise.io/v1alpha1",
        "Notebook": "kubeflow.org/v1",
    }[kind]
    doc = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "status": old}
    items = [{"clusterName": f"member{index}", "status": report} for index, report in enumerate(reports, 1)]
    given = {"operation": "AggregateStatus", "object": doc, "aggregatedStatus": items}
    return {"id": "case-1", "input": given, "expect": {"status": expect}}


DONE = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
COMPLETED = {"type": "Completed", "status": "True", "reason": "Completed", "message": "Job completed"}
READY = {"type": "Ready", "status": "True", "reason": "Ready", "message": "All notebooks are ready"}
LONG_READY = READY | {"lastProbeTime": "2025-01-01T00:00:00Z", "lastTransitionTime": "2025-01-01T00:00:00Z"}
READY_NOW = READY | {"lastProbeTime": "<now>", "lastTransitionTime": "<now>"}
RUNNING = {"running": {"startedAt": "2025-01-01T00:00:00Z"}}
RUNS = {"readyReplicas": 1, "containerState": RUNNING}


@pytest.mark.parametrize(
    ("vector", "excused"),
    [
        (_aggregated("HelmRelease", {"failures": 4}, [{"failures": 1}, {"failures": 2}], {"failures": 7}), True),
        (_aggregated("HelmRelease", {"failures": 4}, [{"failures": 1}, {"failures": 2}], {"failures": 6}), False),
        (_aggregated("BroadcastJob", {}, [DONE, None], {"succeeded": 1, "conditions": [COMPLETED]}), True),
        (_aggregated("BroadcastJob", {}, [None, DONE], {"succeeded": 1, "conditions": [COMPLETED]}), False),
        (
            _aggregated(
                "Notebook",
                {"conditions": [LONG_READY]},
                [RUNS, RUNS],
                {"readyReplicas": 2, "containerState": RUNNING, "conditions": [READY_NOW]},
            ),
            True,
        ),
    ],
)
def test_what_the_original_adds_to_the_status_of_other_kinds_is_excused_and_nothing_else(
    tmp_path: Path, vector: dict[str, object], excused: bool
) -> None:
    path = tmp_path / "lua_thirdparty.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("lua_thirdparty", path)

    assert (report.reasons.total(), len(report.failures)) == (int(excused), int(not excused)), report.failures


@pytest.mark.parametrize("field", ["manifest", "finalizers"])
def test_override_policies_excuse_nothing(tmp_path: Path, field: str) -> None:
    vectors = [one for one in runner.read_vectors(FILES["work_render"]) if not isinstance(one, runner.Failure)]
    vector = next(one for one in vectors if "applied-overrides" in json.dumps(one["expect"]))
    for work in vector["expect"]["works"]:
        work[field] = {"kind": "Other"} if field == "manifest" else ["other"]
    path = tmp_path / "work_render.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check("work_render", path)

    assert (report.reasons.total(), len(report.failures)) == (0, 1)


NOW, BEFORE, AHEAD = "2026-01-01T01:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"


def _case(given: object, expect: object) -> dict[str, object]:
    return {"id": "case-1", "input": given, "expect": expect}


def _tolerated(added: str, tolerations: list[dict[str, object]]) -> dict[str, object]:
    taint = {"key": "gpu", "effect": "NoExecute", "timeAdded": added}
    given = {"taints": [taint], "clusterTolerations": tolerations, "now": NOW, "clusterAlreadyInTargets": True}
    return _case(given, {"eviction": "now", "schedulerFilter": {"feasible": True}})


def _graceful(health: str, ready: int, *, grace: int | None = None) -> dict[str, object]:
    task: dict[str, object] = {"fromCluster": "member1", "creationTimestamp": BEFORE}
    task |= {"gracePeriodSeconds": grace} if grace is not None else {}
    item = {"clusterName": "member2", "health": health, "status": {"readyReplicas": ready}}
    given = {
        "gracefulEvictionTasks": [task],
        "clusters": [{"name": "member2", "replicas": 3}],
        "aggregatedStatus": [item],
        "generation": 1,
        "schedulerObservedGeneration": 1,
        "gracefulEvictionTimeoutSeconds": 36_000,
        "now": NOW,
    }
    return _case(given, {"evictedClusters": ["member1"], "keptTasks": None, "nextRetrySeconds": 0})


def _unhealthy(on: int, expected: int, *, leaving: tuple[str, ...] = ()) -> dict[str, object]:
    names = [f"member{number}" for number in range(1, on + 1)]
    application = {"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}
    spec: dict[str, Any] = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"},
        "clusters": [{"name": name} for name in (*leaving, *names)],
        "gracefulEvictionTasks": [{"fromCluster": name, "purgeMode": "Never"} for name in leaving],
        "failover": {"application": application},
        "propagateDeps": True,
    }
    status = {"aggregatedStatus": [{"clusterName": name, "health": "Unhealthy"} for name in names]}
    made = {
        "purgeMode": "Directly",
        "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller",
    }
    left = {
        "clusters": [{"name": name} for name in (*leaving, *names[expected:])],
        "gracefulEvictionTasks": [
            *spec["gracefulEvictionTasks"],
            *({"fromCluster": name, **made} for name in names[:expected]),
        ],
        "requeueAfterSeconds": 0,
        "unhealthySinceAfter": dict.fromkeys(names[expected:], BEFORE),
    }
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "default"},
        "spec": spec,
        "status": status,
    }
    return _case({"binding": binding, "unhealthySince": dict.fromkeys(names, BEFORE), "now": NOW}, left)


NARROW = {
    "a taint ahead that nothing tolerates": ("tolerations", _tolerated(AHEAD, []), (0, 1, 0)),
    "a taint ahead that is tolerated": ("tolerations", _tolerated(AHEAD, [{"operator": "Exists"}]), (0, 0, 1)),
    "all replicas ready": ("graceful_eviction", _graceful("Healthy", 3), (1, 0, 0)),
    "fewer ready than asked": ("graceful_eviction", _graceful("Healthy", 2), (0, 1, 0)),
    "an unhealthy target": ("graceful_eviction", _graceful("Unhealthy", 3), (0, 0, 1)),
    "the last healthy copy": ("graceful_eviction", _graceful("Unhealthy", 3, grace=30), (0, 1, 0)),
    "the last copy, another not ready": ("graceful_eviction", _graceful("Healthy", 2, grace=30), (0, 1, 0)),
    "a healthy copy elsewhere": ("graceful_eviction", _graceful("Healthy", 3, grace=30), (1, 0, 0)),
    "unhealthy on two": ("app_failover", _unhealthy(2, 2), (1, 0, 0)),
    "unhealthy on three": ("app_failover", _unhealthy(3, 3), (0, 1, 0)),
    "unhealthy on three, one wanted where it leaves": (
        "app_failover",
        _unhealthy(3, 3, leaving=("member9",)),
        (0, 1, 0),
    ),
    "unhealthy on three, two left behind": ("app_failover", _unhealthy(3, 1), (0, 0, 1)),
}


@pytest.mark.parametrize("case", NARROW)
def test_a_named_difference_excuses_what_it_is_about_and_nothing_else(tmp_path: Path, case: str) -> None:
    area, vector, came_out = NARROW[case]
    path = tmp_path / f"{area}.jsonl"
    path.write_text(json.dumps(vector))

    report = runner.check(area, path)

    assert (report.passed, report.reasons.total(), len(report.failures)) == came_out, report.failures

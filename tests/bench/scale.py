"""scale: what the same acts cost in fleets of several sizes, in time, CPU time of all processes and bytes of WAL.

SIZES: clusters x bindings, e.g. SIZES=10x1000,300x100000. `growth` compares neighbouring sizes: the CPU time for each
object that an act changes, beyond what the stack takes in that time while nothing happens, divided by that of the
smaller fleet. 1: linear in what changed and flat in what exists.

A change of a cluster starts a round in which the readiness of all bindings is checked at a bounded pace. That round is
a figure of its own (`readiness_round`), and other acts begin after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tests.bench.figure import Figure, table
from tests.bench.memory import SETTLED_SECONDS, measure
from tests.bench.own_stack import USUAL_INTERVALS, OwnStack, Usage, own_stack, sizes

USUAL = "10x1000,100x10000"  # 300x100000 takes 7 minutes of CPU until it is placed: ask for it by SIZES
IDLE_SECONDS = 30.0
SELDOM = 0.5  # seconds between two questions whether a long act is over
IDLE = "idle_minute"  # name of the step in which nothing happens
READS = 20  # of each kind; the mean counts, because CPU time is counted in steps of 10 ms
# Evictions are not the question here: everything that may leave a cluster leaves it at once.
MODE = USUAL_INTERVALS | {
    "LIFEBOAT_RESOURCE_EVICTION_RATE": "100000",
    "LIFEBOAT_SECONDARY_RESOURCE_EVICTION_RATE": "100000",
}
LOOKING = [
    "probes",
    "collection",
    "cluster_status",
    "fleet",
    "execution",
    "work_status",
]  # controllers that look at the fleet every few seconds
PLACING = ["eviction_queue", "evictions", "scheduler", "works"]
DEPLOYMENTS = "/apis/apps/v1/deployments?limit=500"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
POLICIES = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies"
WORKS = "/apis/work.karmada.io/v1alpha1/namespaces"
OURS = "/apis/failover.lifeboat.io/v1alpha1"


class Step(NamedTuple):
    """What an act cost, and how many objects it concerned."""

    name: str
    changed: int
    usage: Usage


def run() -> list[Figure]:
    """Make each fleet in a stack of its own, and do the same in each."""
    figures: list[Figure] = []
    before: dict[str, Step] = {}
    for clusters, bindings in sizes(USUAL):
        name = f"scale.{clusters}x{bindings}"
        with own_stack(**MODE) as stack:
            found = []
            for step in _steps(stack, clusters, bindings):
                found.append(step)
                print(table(_figures(name, step)), flush=True)  # a large fleet takes its time
            time.sleep(SETTLED_SECONDS)
            figures += [figure for step in found for figure in _figures(name, step)]
            figures += measure(stack, f"{name}.memory")[:2]
        figures += _growth(name, found, before)
        before = {step.name: step for step in found}
    return figures


def _steps(stack: OwnStack, clusters: int, bindings: int) -> Iterator[Step]:
    yield _registration(stack, clusters, bindings)
    _rest(stack)
    yield _idle(stack)
    yield _status_change(stack)
    yield _policy_edit(stack)
    _rest(stack)
    stack.vacuum()  # of what the edit has written
    yield _lost(stack, "cluster_lost", [clusters - 1])
    yield Step("readiness_round", bindings, stack.measured(lambda: _rest(stack)))
    _recovered(stack, [clusters - 1])
    _rest(stack)
    third = list(range(clusters - max(1, clusters * 3 // 10), clusters))
    yield _lost(stack, "third_lost", third)
    _rest(stack)
    yield Step("third_recovered", bindings, stack.measured(lambda: _recovered(stack, third)))
    _rest(stack)
    yield _restart(stack)
    _rest(stack)
    yield from _reads(stack, clusters)


def _registration(stack: OwnStack, clusters: int, bindings: int) -> Step:
    before = stack.usage()
    own = stack.manage("fleet", "--clusters", str(clusters), "--bindings", str(bindings))
    spent = stack.usage().since(before)
    return Step("registration", bindings, spent._replace(cpu=spent.cpu + own))


def _idle(stack: OwnStack) -> Step:
    """Return what a minute costs in which nothing happens, also no clean-up after the registration."""
    stack.vacuum()
    spent = stack.measured(lambda: time.sleep(IDLE_SECONDS))
    share = 60 / spent.seconds
    return Step(IDLE, 1, Usage(60.0, spent.cpu * share, round(spent.wal * share)))


def _status_change(stack: OwnStack) -> Step:
    """Report other replicas of one copy, as an agent does, until the status of its binding has them."""
    namespace, name, document = stack.sql(
        "SELECT namespace, name, doc FROM resources_work WHERE cluster LIKE %s AND manifest_kind = %s LIMIT 1",
        "fleet-%",
        "Deployment",
    )[0]
    manifest = json.loads(document)["spec"]["workload"]["manifests"][0]
    group, _, version = manifest["apiVersion"].rpartition("/")
    reported = {
        "identifier": {
            "ordinal": 0,
            "group": group,
            "version": version,
            "kind": manifest["kind"],
            "resource": "",
            "namespace": manifest["metadata"].get("namespace", ""),
            "name": manifest["metadata"]["name"],
        },
        "status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1},
        "health": "Healthy",
    }

    applied = {"type": "Applied", "status": "True", "reason": "AppliedSuccessful", "lastTransitionTime": _now()}

    def act() -> None:
        since = _version(stack)
        report = {"status": {"conditions": [applied], "manifestStatuses": [reported]}}
        stack.ask("PATCH", f"{WORKS}/{namespace}/works/{name}/status", report)
        stack.until(_WROTE, 1, since, "binding_status", f"{manifest['metadata']['name']}-%", within=120)

    return Step("status_change", 1, stack.measured(act))


def _policy_edit(stack: OwnStack) -> Step:
    """Let the bindings of one of the five policies tolerate a taint that no cluster has."""
    changed = stack.number("SELECT count(*) FROM resources_binding WHERE namespace LIKE %s", "fleet-%") // 5
    toleration = {"key": "scale", "operator": "Exists", "effect": "NoExecute"}

    def act() -> None:
        since = _version(stack)
        edit = {"spec": {"placement": {"clusterTolerations": [toleration]}}}
        stack.ask("PATCH", f"{POLICIES}/fleet-aggregated", edit)
        stack.until(_WROTE, changed, since, "policies", "%", every=SELDOM)
        _settle(stack)

    return Step("policy_edit", changed, stack.measured(act))


def _lost(stack: OwnStack, name: str, numbers: Sequence[int]) -> Step:
    """Taint clusters until each of their copies has left or has no refuge. `changed`: copies that were judged.

    A copy that moves to a cluster that is lost a moment later is judged twice. The last clusters of a fleet are no
    clusters of static weights.
    """
    names = _names(numbers)
    placed = stack.number("SELECT count(*) FROM resources_targetcluster WHERE cluster = ANY(%s)", names)
    moment = _now()

    def act() -> None:
        _taint(stack, names, [{"key": "scale.example/lost", "effect": "NoExecute", "timeAdded": moment}])
        every = SELDOM if placed > 1000 else 0.1
        stack.until(f"SELECT count(*) >= %s {_JUDGED}", placed, names, moment, every=every)
        _settle(stack)

    spent = stack.measured(act)
    return Step(name, stack.number(f"SELECT count(*) {_JUDGED}", names, moment), spent)


def _recovered(stack: OwnStack, numbers: Sequence[int]) -> None:
    """Remove the taints of clusters, and wait until the scheduler has looked at all bindings that this concerns."""
    _taint(stack, _names(numbers), [])
    stack.until(_PLACED, PLACING, every=0.1)


def _taint(stack: OwnStack, names: Iterable[str], taints: list[dict[str, str]]) -> None:
    for name in names:
        stack.ask("PATCH", f"{CLUSTERS}/{name}", {"spec": {"taints": taints}})


def _names(numbers: Iterable[int]) -> list[str]:
    return [f"fleet-{number:04d}" for number in numbers]


def _restart(stack: OwnStack) -> Step:
    """Return what it takes from a start of all processes until a change of replicas is in the binding."""
    namespace, name = stack.sql(
        "SELECT namespace, name FROM resources_binding WHERE namespace LIKE %s LIMIT 1", "fleet-%"
    )[0]
    workload = name.removesuffix("-deployment")
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{workload}"
    stack.stop()
    began = time.monotonic()
    stack.start()
    since, wal = _version(stack), stack.usage().wal
    replicas = json.loads(stack.ask("GET", path))["spec"]["replicas"]
    stack.ask("PATCH", path, {"spec": {"replicas": replicas + 1}})
    stack.until(_WROTE, 1, since, "works", f"{workload}-%")
    used = stack.usage()
    return Step("restart", 1, Usage(time.monotonic() - began, used.cpu, used.wal - wal))


def _reads(stack: OwnStack, clusters: int) -> Iterator[Step]:
    question = {"spec": {"changes": [{"type": "ClustersLost", "names": [f"fleet-{clusters - 1:04d}"]}]}}
    acts: dict[str, Callable[[], Any]] = {
        "list_500": lambda: stack.ask("GET", DEPLOYMENTS),
        "watch_start": lambda: _first_line(stack),
        "readiness": lambda: stack.ask("GET", f"{OURS}/fleetreadinesses"),
        "situation": lambda: stack.ask("GET", "/"),
        "what_if": lambda: _what_if(stack, question),
    }
    for name, act in acts.items():
        act()
        spent = stack.measured(lambda act=act: [act() for _ in range(READS)])  # type: ignore[misc]
        yield Step(name, 1, Usage(spent.seconds / READS, spent.cpu / READS, 0))


def _first_line(stack: OwnStack) -> None:
    """Begin a watch of the 200 Deployments of a namespace, and read the first object."""
    with stack.open("GET", "/apis/apps/v1/namespaces/fleet-0/deployments?watch=true&timeoutSeconds=60") as answer:
        answer.readline()


def _what_if(stack: OwnStack, question: dict[str, Any]) -> None:
    answer = json.loads(stack.ask("POST", f"{OURS}/whatifs", question))
    while answer["status"]["phase"] == "Running":
        time.sleep(0.1)
        answer = json.loads(stack.ask("GET", f"{OURS}/whatifs/{answer['metadata']['name']}"))
    assert answer["status"]["phase"] == "Finished", answer["status"]


_WROTE = "SELECT count(*) >= %s FROM objects_changelog WHERE version > %s AND actor = %s AND name LIKE %s"

_PLACED = "SELECT count(*) = 0 FROM objects_due WHERE due_at <= clock_timestamp() AND controller = ANY(%s)"


_JUDGED = """
FROM failover_eviction
WHERE cluster = ANY(%s) AND queued_at >= %s AND (state <> 'Queued' OR reason = 'NoRefuge')
"""


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _version(stack: OwnStack) -> int:
    return stack.number("SELECT max(version) FROM objects_counter")


def _settle(stack: OwnStack) -> None:
    """Wait until no controller has anything to do but those that look at the fleet every few seconds."""
    stack.until(
        "SELECT count(*) = 0 FROM objects_due WHERE due_at <= clock_timestamp() AND controller <> ALL(%s)",
        LOOKING,
        every=0.1,
    )


def _rest(stack: OwnStack) -> None:
    """Wait until nothing is due, and no round over all bindings runs or is about to begin."""
    stack.until(
        "SELECT count(*) = 0 FROM objects_due WHERE due_at <= clock_timestamp() + CASE controller WHEN 'readiness' "
        "THEN interval '15 s' ELSE interval '0 s' END AND controller <> ALL(%s)",
        LOOKING,
        every=SELDOM,
    )


def _figures(name: str, step: Step) -> list[Figure]:
    on = f"{step.changed:,} changed" if step.changed > 1 else "one"
    figures = [
        Figure(f"{name}.{step.name}", 1000 * step.usage.seconds, "ms", step.changed, on),
        Figure(f"{name}.{step.name}.cpu", 1000 * step.usage.cpu, "ms", step.changed, "CPU of all processes"),
    ]
    if step.usage.wal:
        figures.append(Figure(f"{name}.{step.name}.wal", step.usage.wal / 1e3, "KB", step.changed, "WAL"))
    return figures


def _growth(name: str, steps: Sequence[Step], before: dict[str, Step]) -> list[Figure]:
    """Return for each step the CPU time of one changed object, relative to the smaller fleet."""
    idle, idle_before = _idle_rate(steps), _idle_rate(before.values())
    return [
        Figure(
            f"{name}.{step.name}.growth",
            _cpu_each(step, idle) / max(_cpu_each(smaller, idle_before), 1e-6),
            "times",
            step.changed,
            "CPU for each changed object beyond that of an idle stack, relative to the smaller fleet",
        )
        for step in steps
        if (smaller := before.get(step.name)) is not None
    ]


def _idle_rate(steps: Iterable[Step]) -> float:
    """Return the CPU seconds that the processes of a fleet take in a second in which nothing happens."""
    return next((step.usage.cpu / step.usage.seconds for step in steps if step.name == IDLE), 0.0)


def _cpu_each(step: Step, idle_rate: float) -> float:
    """Return the CPU seconds of a step for each changed object, without those of an idle stack in the same time."""
    idle = 0.0 if step.name == IDLE else idle_rate * step.usage.seconds
    return max(step.usage.cpu - idle, 0.0) / max(step.changed, 1)

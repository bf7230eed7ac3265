"""Every dangerous command: its dry run, its kubectl line, its reason, the typed name, what to watch, the change log."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.main import get_command

from apps.command.program import app
from apps.command.run import LARGE
from controlplane.apimachinery.names import OBSERVE_ANNOTATION
from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_actions import leave
from tests.api.test_evictions import queue
from tests.api.test_failback import FAILBACKS, away, join
from tests.api.test_unjoin import BINDINGS, place
from tests.builders.documents import CLUSTERS
from tests.command.conftest import Lifeboat
from tests.command.test_moving import SECONDS, started

HOLDS = "/apis/failover.lifeboat.io/v1alpha1/evictionholds"
OBSERVED = {"metadata": {"annotations": {OBSERVE_ANNOTATION: "true"}}}


class Stage(NamedTuple):
    """Where an act takes place: the server, and a namespace whose name begins the names of clusters."""

    api: Client
    server: Server
    namespace: str

    def cluster(self, **more: Any) -> str:
        return join(self.api, self.server, f"{self.namespace}-a", **more)

    def queued(self) -> list[str]:
        queue(self.server, self.namespace, "web")
        return ["web.member1", "-n", self.namespace]


class Case(NamedTuple):
    """An act of the command. `prepared` makes the act possible, and returns its arguments.

    shown: a part of its dry run. kubectl: how a kubectl line of it begins. watch: a part of the command that shows
    what becomes of it. back: it takes another act back, so that a script needs no reason.
    """

    prepared: Callable[[Stage], Sequence[str]]
    shown: str
    kubectl: str
    watch: str
    back: bool = False


def drained(stage: Stage) -> list[str]:
    return [*used(stage), "--no-wait"]


def used(stage: Stage) -> list[str]:
    name = stage.cluster()
    place(stage.api, stage.namespace, name)
    return [name]


def cordoned(stage: Stage) -> list[str]:
    name = stage.cluster()
    taints = {"spec": {"taints": [{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]}}
    assert stage.api.patch(f"{CLUSTERS}/{name}", taints).status == 200
    return [name]


def reverted(stage: Stage) -> list[str]:
    leave(stage.api, stage.namespace)
    return ["deployment/web", "-n", stage.namespace]


def held(stage: Stage) -> list[str]:
    path = queue(stage.server, stage.namespace, "web")
    assert stage.api.post(f"{path}/hold", {"reason": "a freeze"}).status == 201
    return ["web.member1", "-n", stage.namespace]


def paused(stage: Stage) -> list[str]:
    spec = {"namespaces": [stage.namespace], "reason": "storm", "who": "me"}
    assert stage.api.post(HOLDS, {"metadata": {"name": stage.namespace}, "spec": spec}).status == 201
    return [stage.namespace]


def observed(stage: Stage) -> list[str]:
    name = stage.cluster()
    assert stage.api.patch(f"{CLUSTERS}/{name}", OBSERVED).status == 200
    return [name]


QUEUE, CLUSTER = "lifeboat queue -w", "clusters.cluster.karmada.io"
CONFIGURATIONS = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations"
RAW, ORDER = "create --raw /apis/", "1 eviction from member1, in 1 namespace."
CASES = {
    "hold": Case(Stage.queued, f"Hold: {ORDER}", RAW, QUEUE),
    "release": Case(held, f"Release: {ORDER}", RAW, QUEUE),
    "skip": Case(Stage.queued, f"Skip: {ORDER}", RAW, QUEUE),
    "expedite": Case(Stage.queued, f"Expedite: {ORDER}", RAW, QUEUE),
    "pause": Case(
        lambda stage: ["--name", stage.namespace, "-n", stage.namespace],
        "Effects: no waiting eviction changes; later evictions in namespace",
        "create -f - <<< ",
        QUEUE,
    ),
    "resume": Case(
        paused,
        "Effects: none, because no waiting eviction is held by it",
        "delete evictionholds.failover",
        QUEUE,
        back=True,
    ),
    "drain": Case(drained, "Moves nothing, 1 without a place, 1 namespace", "create -f - <<< ", "lifeboat drain"),
    "revert": Case(reverted, "Effects: moves 1, ", RAW, "lifeboat record web-deployment -n"),
    "drill": Case(
        lambda stage: [*drained(stage), "--real"],
        "Moves nothing, 1 without a place, 1 namespace",
        "create -f - <<< ",
        "kubectl get drill",
    ),
    "cordon": Case(
        used, "Effects: moves nothing, 1 binding stays on cluster {name}", f"patch {CLUSTER}", "kubectl get cluster"
    ),
    "uncordon": Case(
        cordoned, "Effects: none on workloads that run now", f"patch {CLUSTER}", "kubectl get cluster", back=True
    ),
    "taint": Case(lambda stage: [stage.cluster(), "a.io/b:NoSchedule"], "oves nothing", f"patch {CLUSTER}", QUEUE),
    "fence": Case(
        lambda stage: [stage.cluster(ready="False")],
        "Effects: nothing starts now, because no new copy waits for cluster",
        RAW,
        "lifeboat status",
    ),
    "unjoin": Case(
        lambda stage: [*drained(stage), "--keep"],
        "Moves nothing, 1 without a place, 1 namespace",
        f"patch {CLUSTER}",
        "kubectl get cluster",
    ),
    "takeover": Case(observed, "no object of these clusters is compared", f"patch {CLUSTER}", "kubectl get works"),
    "observe": Case(
        lambda stage: [stage.cluster()], "0 objects on {name} are compared", f"patch {CLUSTER}", "lifeboat compare"
    ),
}
ELSEWHERE = {
    "failback": "it waits for a controller: test_moving has it, and the tests of the typed name below",
    "import": "it needs another control plane: tests/acceptance/test_import.py",
    "join": "it adds a cluster, or renews its credentials; nothing moves",
}


def test_every_dangerous_command_is_tested_here_or_elsewhere() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    options = {name: {option for one in command.params for option in one.opts} for name, command in commands.items()}
    dangerous = {name for name, known in options.items() if "--yes" in known}

    assert dangerous == {*CASES, *ELSEWHERE}
    assert [name for name in dangerous if not {"--reason", "--dry-run"} <= options[name]] == []


@pytest.fixture
def stage(api: Client, server: Server, namespace: str) -> Stage:
    return Stage(api, server, namespace)


def newest(server: Server) -> int:
    ((version,),) = server.sql("SELECT coalesce(max(version), 0) FROM objects_changelog")
    return int(version)


@pytest.mark.parametrize("name", CASES)
def test_a_dangerous_command_shows_its_dry_run_needs_a_reason_and_says_what_to_watch(
    lifeboat: Lifeboat, stage: Stage, name: str
) -> None:
    case = CASES[name]
    arguments = [name, *case.prepared(stage)]
    before = newest(stage.server)

    tried = lifeboat(*arguments, "--dry-run")
    without = lifeboat(*arguments, "--yes") if not case.back else None
    unchanged = newest(stage.server)
    done = lifeboat(*arguments, "--yes", "--reason", f"because of {stage.namespace}")

    assert tried.exit_code == 0, tried.stderr
    assert case.shown.format(name=arguments[1]) in tried.stderr
    assert f"as kubectl: kubectl {case.kubectl}" in tried.stderr
    assert "dry run: nothing was changed" in tried.stderr
    if without is not None:
        assert (without.exit_code, "--reason is missing" in without.stderr) == (2, True), without.stderr
    assert unchanged == before
    assert done.exit_code == 0, done.stderr
    assert f"watch it: {case.watch}" in done.stderr
    logged = stage.server.sql(f"SELECT actor, reason FROM objects_changelog WHERE version > {before} ORDER BY version")
    assert [actor for actor, reason in logged if f"because of {stage.namespace}" in reason][:1] == ["admin"], logged


def placed_many(stage: Stage, name: str) -> None:
    """Place more workloads on a cluster than a single letter confirms."""
    for number in range(LARGE + 1):
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web{number}"}
        spec = {"resource": {**resource, "namespace": stage.namespace}, "clusters": [{"name": name}], "placement": {}}
        body = {"metadata": {"name": f"web{number}-deployment"}, "spec": spec}
        made = stage.api.post(BINDINGS.format(stage.namespace), body)
        assert made.status == 201, made.body


def typed(
    server: Server, arguments: Sequence[str], *lines: str, meanwhile: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command on a terminal on which these lines are typed. `meanwhile`: what happens once it has started."""
    terminal, inside = pty.openpty()
    asking = started(server, *arguments, stdin=inside)
    if meanwhile is not None:
        assert asking.stderr is not None
        asking.stderr.readline()  # it waits
        meanwhile()
    os.write(terminal, "".join(f"{line}\n" for line in lines).encode())
    out, err = asking.communicate(timeout=SECONDS)
    os.close(terminal)
    os.close(inside)
    return subprocess.CompletedProcess(arguments, asking.returncode, out, err)


GATE_OPEN = """
from datetime import timedelta
from apps.objects.store import store
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.kinds.rows import FleetState
state = FleetState("default", failover_on_since=store().now() - timedelta(hours=1))
store().apply([(None, Decision(changes=(Save(state),)))], by=Actor("test"))
"""


@pytest.fixture
def evicting(api: Client, server: Server) -> Iterator[None]:
    """Taints evict while the test runs: the gate is on, as a worker would have noted."""
    open_gate = {"metadata": {"name": "default"}, "spec": {"featureGates": {"Failover": True}}}
    assert api.post(CONFIGURATIONS, open_gate).status == 201
    server.manage("shell", "--no-imports", "-c", GATE_OPEN)
    yield
    server.sql("DELETE FROM failover_fleetstate WHERE key = 'default'")
    assert api.delete(f"{CONFIGURATIONS}/default").status == 200


LARGE_ACTS = {
    "drain": ["--no-wait"],
    "drill": ["--real", "--no-wait"],
    "taint": ["power=off:NoExecute"],
    "unjoin": ["--keep", "--no-wait"],
}


@pytest.mark.parametrize("name", LARGE_ACTS)
def test_an_act_about_more_than_ten_workloads_is_confirmed_by_typing_the_cluster(
    stage: Stage, evicting: None, name: str
) -> None:
    cluster = stage.cluster()
    placed_many(stage, cluster)
    arguments = [name, cluster, *LARGE_ACTS[name]]
    before = newest(stage.server)

    refused = typed(stage.server, arguments, "disks", "y")
    unchanged = newest(stage.server)
    done = typed(stage.server, arguments, "disks", cluster)

    assert (refused.returncode, done.returncode) == (7, 0), (refused.stderr, done.stderr)
    for one in (refused, done):
        assert "Reason: " in one.stderr
        assert f"{LARGE + 1} workloads are concerned: type {cluster} to confirm:" in one.stderr
    assert unchanged == before
    assert stage.server.sql(f"SELECT 1 FROM objects_changelog WHERE version > {before} AND reason = 'API: disks'")


@pytest.mark.parametrize(("answer", "code"), [("y", 7), ("{origin}", 0)])
def test_a_failback_of_more_than_ten_workloads_is_confirmed_by_typing_the_cluster(
    stage: Stage, answer: str, code: int
) -> None:
    origin, refuge = (join(stage.api, stage.server, f"{stage.namespace}-{one}") for one in "ab")
    for number in range(LARGE + 1):
        away(stage.api, stage.namespace, origin, refuge, workload=f"web{number}")

    def planned() -> None:
        work(stage.server, "failbacks")

    arguments = ["failback", origin, "--no-wait"]
    done = typed(stage.server, arguments, "they are well", answer.format(origin=origin), meanwhile=planned)

    assert done.returncode == code, done.stderr
    assert f"{LARGE + 1} workloads are concerned: type {origin} to confirm:" in done.stderr
    reasons = [
        one["spec"]["reason"]
        for one in stage.api.get(FAILBACKS).document["items"]
        if one["spec"].get("cluster") == origin
    ]
    assert reasons == ([] if code else ["they are well"])


@pytest.mark.parametrize("name", ["fence", "unjoin"])
def test_what_cannot_be_taken_back_is_always_confirmed_by_typing_the_cluster(stage: Stage, name: str) -> None:
    cluster = stage.cluster(ready="False")
    arguments = [name, cluster, *(["--no-wait"] if name == "unjoin" else [])]

    refused = typed(stage.server, arguments, "no power", "y")
    without = typed(stage.server, arguments, "")
    done = typed(stage.server, arguments, "no power", cluster)

    assert (refused.returncode, without.returncode, done.returncode) == (7, 2, 0), (refused, without, done)
    assert f"type {cluster} to confirm:" in refused.stderr


@pytest.mark.kubectl
@pytest.mark.parametrize("name", CASES)
def test_the_kubectl_line_of_a_command_does_the_same(
    lifeboat: Lifeboat, kubectl: Path, stage: Stage, name: str
) -> None:
    tried = lifeboat(name, *CASES[name].prepared(stage), "--dry-run")
    before = newest(stage.server)
    environment = {**os.environ, "KUBECONFIG": str(stage.server.kubeconfig)}
    environment["PATH"] = f"{kubectl.parent}{os.pathsep}{environment['PATH']}"

    for line in re.findall("^as kubectl: (.*)$", tried.stderr, re.MULTILINE):
        call = line + (" --wait=false" if line.startswith("kubectl delete") else "")
        done = subprocess.run(
            ["bash", "-c", call], env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        assert done.returncode == 0, (line, done.stderr)

    logged = stage.server.sql(f"SELECT actor FROM objects_changelog WHERE version > {before} AND actor = 'admin'")
    assert logged != []

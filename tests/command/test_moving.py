"""Drain and failback from the command: shown first, confirmed, followed to the end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.api.controllers import work
from tests.api.server import Client, Server
from tests.api.test_failback import FAILBACKS, away, join
from tests.builders.documents import CLUSTERS
from tests.command.conftest import DO, Lifeboat
from tests.processes import PROJECT, hear_interrupts

DRAINS = "/apis/failover.lifeboat.io/v1alpha1/drains"
SECONDS = 60


def started(server: Server, *arguments: str, **more: int) -> subprocess.Popen[str]:
    """Start the command as a process of its own."""
    environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "NO_COLOR": "1"}
    call = [sys.executable, "-m", "apps.command", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    options: Any = {**pipes, "preexec_fn": hear_interrupts}
    return subprocess.Popen(call, cwd=PROJECT, env=environment, text=True, **options)


def drains_of(api: Client, cluster: str) -> list[str]:
    items = api.get(DRAINS).document["items"]
    return [one["metadata"]["name"] for one in items if one["spec"]["cluster"] == cluster]


def test_a_drain_is_confirmed_followed_to_its_end_and_stopped(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")

    asked = lifeboat("drain", name)
    tried = lifeboat("drain", name, "--dry-run")
    missing = lifeboat("drain", f"{namespace}-none", *DO)
    assert (asked.exit_code, tried.exit_code, missing.exit_code) == (7, 0, 3)
    assert drains_of(api, name) == []

    begun = lifeboat("drain", name, "--yes", "--no-wait", "--rate", "2", "--reason", "kernel")
    assert begun.exit_code == 0, begun.stderr
    assert lifeboat("drain", name, "--stop", "--yes").exit_code == 0
    again, more = lifeboat("drain", name, "--stop"), lifeboat("drain", name, *DO)
    (order,) = drains_of(api, name)
    assert (again.exit_code, again.stdout) == (0, f"drain {order} is stopped already: nothing to do\n"), again.stderr
    assert (more.exit_code, f"lifeboat drain {name} --resume" in more.stderr) == (1, True), more.stderr
    spec = api.get(f"{DRAINS}/{order}").document["spec"]
    assert (spec["rate"], spec["reason"], spec["stop"]) == (2.0, "kernel", True)

    following = started(server, "drain", name, "--resume", "--yes")
    assert following.stderr is not None
    assert following.stderr.readline().startswith("Effects: ")
    assert "Waiting" in following.stderr.readline()  # it watches
    work(server, "drains")
    out, err = following.communicate(timeout=SECONDS)

    assert following.returncode == 0, err
    assert out.startswith(
        f"{order}: Finished, 0 leaving, 0 remaining: nothing is left on cluster {name}; it stays cordoned."
    )
    assert f"kubectl lifeboat uncordon {name}, then kubectl lifeboat failback {name}" in out
    assert "unschedulable" in str(api.get(f"{CLUSTERS}/{name}").document["spec"]["taints"])
    over, wrong = lifeboat("drain", name, "--stop"), lifeboat("drain", f"{namespace}-none", "--stop")
    assert (over.exit_code, over.stdout) == (0, f"no drain of {name} is open: nothing to stop\n"), over.stderr
    assert (wrong.exit_code, lifeboat("drain", name, "--resume").exit_code) == (4, 4)


def test_a_stop_stops_every_drain_of_the_cluster(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    name = join(api, server, f"{namespace}-a")
    for order, stop in (("a", True), ("b", False), ("c", False)):  # as an ended drill, the console and a script leave
        spec = {"cluster": name, "stop": stop, "reason": "kernel"}
        head = {"apiVersion": "failover.lifeboat.io/v1alpha1", "kind": "Drain"}
        api.post(DRAINS, {**head, "metadata": {"name": f"{namespace}-{order}"}, "spec": spec})

    stopped = lifeboat("drain", name, "--stop", "--yes")
    again = lifeboat("drain", name, "--stop")

    assert stopped.exit_code == 0, stopped.stderr
    assert [api.get(f"{DRAINS}/{one}").document["spec"]["stop"] for one in drains_of(api, name)] == [True] * 3
    assert f"drain {namespace}-c, {namespace}-b stopped" in stopped.stdout
    named = ", ".join(f"{namespace}-{order}" for order in "cba")
    assert (again.exit_code, again.stdout) == (0, f"drain {named} is stopped already: nothing to do\n"), again.stderr


def test_a_failback_shows_its_plan_and_returns_only_what_was_confirmed(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    binding = away(api, namespace, origin, refuge)
    terminal, inside = pty.openpty()

    following = started(server, "failback", "--binding", binding, stdin=inside)
    assert following.stderr is not None
    assert "planning" in following.stderr.readline()
    work(server, "failbacks")
    os.write(terminal, b"they are healthy\nn\n")  # the reason, and the answer
    out, err = following.communicate(timeout=SECONDS)
    os.close(terminal), os.close(inside)

    assert (following.returncode, out) == (7, ""), err
    assert f"{binding}   {refuge}" in err
    assert f":{binding}" not in err  # as users write it, without its kind
    assert "spec.dryRun" not in err  # the command asks
    assert "Reason: Return them? [y/N]" in err
    assert f'"dryRun": false, "binding": "{binding}"' in err  # the kubectl line
    mine = [one for one in api.get(FAILBACKS).document["items"] if one["spec"].get("binding") == binding]
    assert mine == []  # the plan is gone

    refused = lifeboat("failback", f"{namespace}-none")
    assert (refused.exit_code, "spec.cluster" in refused.stderr) == (3, True), refused.stderr
    assert lifeboat("failback").exit_code == 2
    assert lifeboat("failback", "-l", "no-label").exit_code == 2


def test_a_confirmed_failback_starts(lifeboat: Lifeboat, api: Client, server: Server, namespace: str) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    binding = away(api, namespace, origin, refuge)

    following = started(server, "failback", "--binding", binding, *DO, "--no-wait")
    assert following.stderr is not None
    assert "planning" in following.stderr.readline()
    work(server, "failbacks")
    out, err = following.communicate(timeout=SECONDS)

    assert following.returncode == 0, err
    (mine,) = [one for one in api.get(FAILBACKS).document["items"] if one["spec"].get("binding") == binding]
    assert out.startswith(f"failback {mine['metadata']['name']} started")
    assert (mine["spec"]["dryRun"], mine["spec"]["reason"]) == (False, "planned")


@pytest.mark.parametrize("how", [DO, ("--dry-run",)], ids=["done", "tried"])
def test_a_failback_that_is_refused_says_so_and_leaves_no_plan_behind(
    api: Client, server: Server, namespace: str, how: tuple[str, ...]
) -> None:
    origin = join(api, server, f"{namespace}-a", since=None)
    away(api, namespace, origin, join(api, server, f"{namespace}-b"))

    following = started(server, "failback", origin, *how)
    assert following.stderr is not None
    assert "planning" in following.stderr.readline()
    work(server, "failbacks")
    _, err = following.communicate(timeout=SECONDS)

    assert following.returncode == 3, err
    assert "1 bindings would go back" in err
    assert "Ready for less than 10 minutes" in err
    assert not [one for one in api.get(FAILBACKS).document["items"] if one["spec"].get("cluster") == origin]


def test_a_revert_shows_what_changes_and_is_refused_without_a_failover(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    away(api, namespace, origin, refuge)

    done = lifeboat("revert", "deployment/web", "-n", namespace, *DO)

    assert (done.exit_code, "no failover of it is on record" in done.stderr) == (3, True), done.stderr


LEAVES = """
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.eviction.purge import with_task
ref = Ref.parse({ref!r})
live = store().get([ref])[ref]
new = with_task(live, {cluster!r}, mode="Gracefully", reason="Drain", producer="", message="kernel", now=store().now())
store().apply([(None, Decision(changes=(Put(new, live),), reason="Drain"))], by=Actor("drains"))
"""


def test_what_a_drain_moved_is_on_record_with_its_steps(
    lifeboat: Lifeboat, api: Client, server: Server, namespace: str
) -> None:
    origin, refuge = (join(api, server, f"{namespace}-{one}") for one in "ab")
    ref = f"work.karmada.io/ResourceBinding:{away(api, namespace, origin, refuge)}"
    server.manage("shell", "--no-imports", "-c", LEAVES.format(ref=ref, cluster=refuge))  # as a Drain writes it
    named = ("deployment/web", "-n", namespace)

    table = lifeboat("record", *named)
    listed = lifeboat("record", "-n", namespace, "--cluster", refuge, "--since", "1h", "-o", "yaml")
    nothing = lifeboat("record", "-n", namespace, "--cluster", origin)
    report = lifeboat("record", *named, "-o", "markdown")

    assert table.exit_code == 0, table.stderr
    first, heading, *steps = table.stdout.splitlines()
    assert first.startswith(f"Deployment {namespace}/web left {refuge} for ")
    assert heading.split() == ["AFTER", "STEP", "CLUSTER", "MESSAGE", "AT"]
    assert [line.split()[1] for line in steps][:1] == ["Decided"]
    (one,) = yaml.safe_load(listed.stdout)["items"]
    assert (one["status"]["reason"], nothing.stderr) == ("Drain", "none\n")
    assert lifeboat("record", one["metadata"]["name"], "-n", namespace).stdout.splitlines()[0] == first
    assert f"## Deployment {namespace}/web" in report.stdout
    assert "| Decided |" in report.stdout

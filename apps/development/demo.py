"""`make demo`: runs two failovers of the manual on real processes, and prints their steps.

The exit status is 1 if a result differs from the manual.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from apps.development.supervise.services import DATABASE, REDIS

PROJECT = Path(__file__).resolve().parents[2]
FOLDER = PROJECT / ".lifeboat" / "demo"
EXAMPLES = PROJECT / "docs" / "examples"
MEMBERS = tuple(f"member{number}" for number in range(1, 6))
BINDING = "default/nginx-deployment"
BINDINGS_URL = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
STEP_SECONDS = 90.0  # how long a step may take on a slow machine


class Differs(Exception):
    """A result differs from what the manual describes."""


def main() -> int:
    """Run both failovers. Returns the exit status."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    end_with = "down"  # after an error the logs are kept until the next run
    try:
        _supervise("clean")
        _supervise("up", "--members", ",".join(MEMBERS))
        demo = Demo()
        demo.duplicated()
        demo.divided()
        end_with = "clean"
    except Differs as error:
        print(f"\nThe result differs: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        _supervise(end_with)
    print("\nBoth failovers ended as the manual describes.")
    return 0


def _supervise(verb: str, *arguments: str) -> None:
    """Call the supervisor. It always starts servers of its own, never with the database in the environment."""
    own = {name: value for name, value in os.environ.items() if name not in (DATABASE, REDIS)}
    command = [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(FOLDER), *arguments]
    subprocess.run(command, cwd=PROJECT, env=own, check=True)


class Demo:
    """A running stack with five simulated members."""

    def __init__(self) -> None:
        facts = json.loads((FOLDER / "run" / "ready.json").read_text())
        os.environ.update(facts["environment"])
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        import django  # here, because the settings read the addresses of this run from the environment

        django.setup()
        from apps.objects.store import store

        self.store = store()
        self.api: str = facts["api"]
        self.members: dict[str, Any] = json.loads(Path(facts["members"], "members.json").read_text())
        kubeconfig = yaml.safe_load((FOLDER / "kubeconfig").read_text())
        self.token: str = kubeconfig["users"][0]["user"]["token"]
        self.queued: dict[str, Any] = {}  # rows of the eviction queue by key, because the change log does not have them
        self._await("all members to be Ready", lambda: all(self._ready(name) for name in MEMBERS))

    def duplicated(self) -> None:
        """member1 keeps its copy. The copy on member2 moves to member3 or member5."""
        print("\n== Duplicated: member2 fails ==")
        self._apply("duplicated.yaml", {"member1": 2, "member2": 2})
        since = self._fail("member2")
        self._await("the eviction to be complete", lambda: self._step(since, "cleared", "member2"))
        placed = self._placed()
        self._recover("member2", since)
        self._print(since)
        if set(placed) not in ({"member1", "member3"}, {"member1", "member5"}) or set(placed.values()) != {2}:
            raise Differs(f"placed on {placed}, expected member1 and one of member3, member5 with 2 replicas each")
        if self._step(since, "removed", "member1"):
            raise Differs("the copy on member1 was removed, although it was healthy all the time")

    def divided(self) -> None:
        """member2 takes over all three replicas. Only then the copy on member1 is removed."""
        print("\n== Divided 1:2: member1 fails ==")
        self._apply("divided.yaml", {"member1": 1, "member2": 2})
        since = self._fail("member1")
        self._await("the eviction to be complete", lambda: self._step(since, "cleared", "member1"))
        placed = self._placed()
        self._recover("member1", since)
        self._print(since)
        if placed != {"member2": 3}:
            raise Differs(f"placed on {placed}, expected member2 with all 3 replicas")
        healthy, removed = self._step(since, "healthy", "member2"), self._step(since, "removed", "member1")
        if not healthy or removed.at < healthy.at:
            raise Differs("the old copy was removed before the new one was healthy")
        if not all(at > healthy.at for at in self._removals("member1")):
            raise Differs("member1 got the request to delete its copy before member2 was healthy")

    # Actions

    def _apply(self, example: str, expected: dict[str, int]) -> None:
        """Delete the objects of an example, create them again, and wait until all copies run."""
        for entry in yaml.safe_load_all((EXAMPLES / example).read_text()):
            path = _path(entry)
            self._ask("DELETE", f"{path}/{entry['metadata']['name']}")
        self._await("the objects of the last run to be gone", lambda: not self._copies() and not self._exist(example))
        for item in yaml.safe_load_all((EXAMPLES / example).read_text()):
            self._ask("POST", _path(item), item)
            print(f"applied {item['kind']}/{item['metadata']['name']} from docs/examples/{example}")
        self._await("all copies to run", lambda: self._running() == expected)
        self._await("all copies to be reported healthy", lambda: self._healthy() == set(expected))
        print(f"running: {_shown(expected)}")

    def _exist(self, example: str) -> bool:
        wanted = yaml.safe_load_all((EXAMPLES / example).read_text())
        found = [self._ask("GET", f"{_path(item)}/{item['metadata']['name']}") for item in wanted]
        return any(found) or self._placed() is not None

    def _fail(self, member: str) -> int:
        """Make a member refuse connections. Returns the version of the change log before that."""
        since = self.store.current_version()
        self.began: datetime = self.store.now()
        self.queued = {}
        self._fault(member, "down")
        return since

    def _recover(self, member: str, since: int) -> None:
        """Bring a member back, and wait until its old copy is removed."""
        self._fault(member, "none")
        self._await("the member to be Ready again", lambda: self._step(since, "ready", member))
        self._await("its taint NoSchedule to be removed", lambda: self._step(since, "no taint NoSchedule", member))
        self._await("its taint NoExecute to be removed", lambda: self._step(since, "no taint NoExecute", member))
        self._await("its old copy to be removed", lambda: member not in self._copies())
        self._await("the Work of that copy to be gone", lambda: self._step(since, "work gone", member))
        print(f"{member} failed and came back; running now: {_shown(self._running())}")

    def _fault(self, member: str, fault: str) -> None:
        body = json.dumps({"fault": fault}).encode()
        url = f"{self.members['control']}/members/{member}/fault"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT"), timeout=10):
            pass

    # Observations

    def _steps(self, since: int) -> list[Any]:
        from apps.development.timeline import queued, steps_of

        changes: list[Any] = []
        while page := self.store.changes(since):
            changes += page
            since = page[-1].version
        return sorted([*steps_of(changes, binding=BINDING), *queued(self.queued.values())])

    def _read_queue(self) -> None:
        from controlplane.kinds.rows import Eviction

        rows = self.store.rows(Eviction, "cluster", MEMBERS)
        self.queued |= {row.key: row for found in rows.values() for row in found if row.queued_at is not None}

    def _step(self, since: int, word: str, cluster: str) -> Any:
        found = (step for step in self._steps(since) if (step.word, step.cluster) == (word, cluster))
        return next(found, None)

    def _print(self, since: int) -> None:
        """Print the steps of the failover with the seconds since the fault."""
        print("seconds since the fault began:")
        for step in self._steps(since):
            if step.at >= self.began:
                print(f"  {(step.at - self.began).total_seconds():6.2f}  {step.what}")

    def _ready(self, member: str) -> bool:
        from apps.development.timeline import condition_of

        found = self._ask("GET", f"/apis/cluster.karmada.io/v1alpha1/clusters/{member}")
        return found is not None and condition_of(found, "Ready") == "True"

    def _placed(self) -> Any:
        from apps.development.timeline import targets

        found = self._ask("GET", f"{BINDINGS_URL}/nginx-deployment")
        return None if found is None else targets(found)

    def _copies(self) -> dict[str, Any]:
        """Return the Deployment as each member has it. A member that is down is not included."""
        return {
            member["name"]: found
            for member in self.members["members"]
            if (found := self._on(member, "/apis/apps/v1/namespaces/default/deployments/nginx"))
        }

    def _running(self) -> dict[str, int]:
        """Return the ready replicas by member, as the members report them."""
        return {name: doc.get("status", {}).get("readyReplicas", 0) for name, doc in self._copies().items()}

    def _healthy(self) -> set[str]:
        """Return the clusters whose copies are healthy with all replicas, as the control plane knows it."""
        from apps.development.timeline import health, replicas

        works = self._ask("GET", "/apis/work.karmada.io/v1alpha1/works")["items"]
        return {
            work["metadata"]["namespace"].removeprefix("karmada-es-")
            for work in works
            if health(work) == ("Healthy", replicas(work), replicas(work))
        }

    def _removals(self, member: str) -> list[datetime]:
        """Return when the member got requests to delete its copy, from its own log."""
        with urllib.request.urlopen(f"{self.members['control']}/members/{member}/requests", timeout=10) as answer:
            requests = json.load(answer)["requests"]
        ends = "/deployments/nginx"
        times = [
            request["at"] for request in requests if request["method"] == "DELETE" and request["path"].endswith(ends)
        ]
        return [at for at in map(datetime.fromisoformat, times) if at >= self.began]

    def _on(self, member: dict[str, str], path: str) -> Any:
        try:
            return _json(member["url"] + path, token=member["token"])
        except OSError:
            return None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the API. None: 404."""
        try:
            return _json(self.api + path, token=self.token, method=method, body=body)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise Differs(f"{method} {path}: HTTP {error.code} {error.read()[:500].decode()}") from error

    def _await(self, what: str, holds: Callable[[], Any]) -> None:
        ends = time.monotonic() + STEP_SECONDS
        while not holds():
            if time.monotonic() > ends:
                raise Differs(f"waited {STEP_SECONDS:g} s for {what}; logs: {FOLDER / 'logs'}")
            self._read_queue()
            time.sleep(0.1)


def _json(url: str, *, token: str, method: str = "GET", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def _path(doc: dict[str, Any]) -> str:
    """Return the URL path of the collection of an object."""
    plural = {"Deployment": "deployments", "PropagationPolicy": "propagationpolicies"}[doc["kind"]]
    return f"/apis/{doc['apiVersion']}/namespaces/default/{plural}"


def _shown(placed: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(placed.items()))


if __name__ == "__main__":
    sys.exit(main())

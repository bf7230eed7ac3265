"""`make demo`: two failovers of the manual on real parts, told as timelines; fails where the result differs."""

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
WITHIN = 90.0  # seconds each step may take on a slow machine


class Differs(Exception):
    """Something ended elsewhere than the manual says."""


def main() -> int:
    """Run both failovers; return the exit status."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    over = "down"  # where something went wrong its logs stay, until the next run
    try:
        _supervise("clean")
        _supervise("up", "--members", ",".join(MEMBERS))
        demo = Demo()
        demo.duplicated()
        demo.divided()
        over = "clean"
    except Differs as error:
        print(f"\nThe result differs: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        _supervise(over)
    print("\nBoth failovers ended as the manual says.")
    return 0


def _supervise(verb: str, *arguments: str) -> None:
    """Call the supervisor; the servers are always our own: somebody's database is no place for members that vanish."""
    own = {name: value for name, value in os.environ.items() if name not in (DATABASE, REDIS)}
    command = [sys.executable, "-m", "apps.development.supervise", verb, "--dir", str(FOLDER), *arguments]
    subprocess.run(command, cwd=PROJECT, env=own, check=True)


class Demo:
    """A running stack, and what is done with it."""

    def __init__(self) -> None:
        facts = json.loads((FOLDER / "run" / "ready.json").read_text())
        os.environ.update(facts["environment"])
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
        import django  # here: the settings read where the servers of this run are

        django.setup()
        from apps.objects.store import store

        self.store = store()
        self.api: str = facts["api"]
        self.members: dict[str, Any] = json.loads(Path(facts["members"], "members.json").read_text())
        kubeconfig = yaml.safe_load((FOLDER / "kubeconfig").read_text())
        self.token: str = kubeconfig["users"][0]["user"]["token"]
        self.queued: dict[str, Any] = {}  # rows of the eviction queue by key: they leave no line in the change log
        self._await("all members to be Ready", lambda: all(self._ready(name) for name in MEMBERS))

    def duplicated(self) -> None:
        """member1 keeps its copy; the one of member2 goes to member3 or member5."""
        print("\n== Duplicated: member2 fails ==")
        self._apply("duplicated.yaml", {"member1": 2, "member2": 2})
        since = self._fail("member2")
        self._await("the eviction to be complete", lambda: self._step(since, "cleared", "member2"))
        placed = self._placed()
        self._recover("member2", since)
        self._tell(since)
        if set(placed) not in ({"member1", "member3"}, {"member1", "member5"}) or set(placed.values()) != {2}:
            raise Differs(f"placed on {placed}, expected member1 and one of member3, member5 with 2 replicas each")
        if self._step(since, "removed", "member1"):
            raise Differs("the copy on member1, which was healthy all the time, was taken away")

    def divided(self) -> None:
        """member2 takes all three replicas, and only then the copy of member1 goes."""
        print("\n== Divided 1:2: member1 fails ==")
        self._apply("divided.yaml", {"member1": 1, "member2": 2})
        since = self._fail("member1")
        self._await("the eviction to be complete", lambda: self._step(since, "cleared", "member1"))
        placed = self._placed()
        self._recover("member1", since)
        self._tell(since)
        if placed != {"member2": 3}:
            raise Differs(f"placed on {placed}, expected member2 with all 3 replicas")
        healthy, removed = self._step(since, "healthy", "member2"), self._step(since, "removed", "member1")
        if not healthy or removed.at < healthy.at:
            raise Differs("the old copy was let go before the new one was healthy")
        if not all(at > healthy.at for at in self._removals("member1")):
            raise Differs("member1 was asked to delete its copy before member2 was healthy")

    # What is done

    def _apply(self, example: str, expected: dict[str, int]) -> None:
        """Start from nothing, create an example's objects, wait until all copies run."""
        for one in yaml.safe_load_all((EXAMPLES / example).read_text()):
            path = _path(one)
            self._ask("DELETE", f"{path}/{one['metadata']['name']}")
        self._await("the last run to be cleared away", lambda: not self._held() and not self._there(example))
        for one in yaml.safe_load_all((EXAMPLES / example).read_text()):
            self._ask("POST", _path(one), one)
            print(f"applied {one['kind']}/{one['metadata']['name']} of docs/examples/{example}")
        self._await("all copies to run", lambda: self._running() == expected)
        self._await("all copies to be reported healthy", lambda: self._healthy() == set(expected))
        print(f"running: {_shown(expected)}")

    def _there(self, example: str) -> bool:
        wanted = yaml.safe_load_all((EXAMPLES / example).read_text())
        found = [self._ask("GET", f"{_path(one)}/{one['metadata']['name']}") for one in wanted]
        return any(found) or self._placed() is not None

    def _fail(self, member: str) -> int:
        """Let a member go down; return the version of the log from which on it matters."""
        since = self.store.current_version()
        self.began: datetime = self.store.now()
        self.queued = {}
        self._fault(member, "down")
        return since

    def _recover(self, member: str, since: int) -> None:
        """Bring a member back and wait until its old copy is gone there too."""
        self._fault(member, "none")
        self._await("the member to be Ready again", lambda: self._step(since, "ready", member))
        self._await("its taint NoSchedule to go", lambda: self._step(since, "no taint NoSchedule", member))
        self._await("its taint NoExecute to go", lambda: self._step(since, "no taint NoExecute", member))
        self._await("its old copy to be gone from it", lambda: member not in self._held())
        self._await("the Work of that to be gone", lambda: self._step(since, "work gone", member))
        print(f"{member} failed and came back; running now: {_shown(self._running())}")

    def _fault(self, member: str, fault: str) -> None:
        body = json.dumps({"fault": fault}).encode()
        url = f"{self.members['control']}/members/{member}/fault"
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method="PUT"), timeout=10):
            pass

    # What is seen

    def _steps(self, since: int) -> list[Any]:
        from apps.development.timeline import queued, told

        found: list[Any] = []
        while page := self.store.changes(since):
            found += page
            since = page[-1].version
        return sorted([*told(found, binding=BINDING), *queued(self.queued.values())])

    def _look_at_queue(self) -> None:
        from controlplane.kinds.rows import Eviction

        rows = self.store.rows(Eviction, "cluster", MEMBERS)
        self.queued |= {row.key: row for found in rows.values() for row in found if row.queued_at is not None}

    def _step(self, since: int, word: str, cluster: str) -> Any:
        found = (step for step in self._steps(since) if (step.word, step.cluster) == (word, cluster))
        return next(found, None)

    def _tell(self, since: int) -> None:
        """Print the failover's steps with seconds since the fault."""
        print("seconds since the fault was ordered:")
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

    def _held(self) -> dict[str, Any]:
        """Return the members that have the Deployment, asked themselves; one that is away has what it had."""
        return {
            one["name"]: found
            for one in self.members["members"]
            if (found := self._on(one, "/apis/apps/v1/namespaces/default/deployments/nginx"))
        }

    def _running(self) -> dict[str, int]:
        """Return ready replicas by member, as the members say."""
        return {name: doc.get("status", {}).get("readyReplicas", 0) for name, doc in self._held().items()}

    def _healthy(self) -> set[str]:
        """Return where the control plane knows the copies to be healthy with all replicas."""
        from apps.development.timeline import health, replicas

        works = self._ask("GET", "/apis/work.karmada.io/v1alpha1/works")["items"]
        return {
            one["metadata"]["namespace"].removeprefix("karmada-es-")
            for one in works
            if health(one) == ("Healthy", replicas(one), replicas(one))
        }

    def _removals(self, member: str) -> list[datetime]:
        """Return when the member was asked to delete its copy, by its own log."""
        with urllib.request.urlopen(f"{self.members['control']}/members/{member}/requests", timeout=10) as answer:
            requests = json.load(answer)["requests"]
        ends = "/deployments/nginx"
        times = [one["at"] for one in requests if one["method"] == "DELETE" and one["path"].endswith(ends)]
        return [at for at in map(datetime.fromisoformat, times) if at >= self.began]

    def _on(self, member: dict[str, str], path: str) -> Any:
        try:
            return _json(member["url"] + path, token=member["token"])
        except OSError:
            return None

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the API's answer, None where it says 404."""
        try:
            return _json(self.api + path, token=self.token, method=method, body=body)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise Differs(f"{method} {path}: HTTP {error.code} {error.read()[:500].decode()}") from error

    def _await(self, what: str, holds: Callable[[], Any]) -> None:
        ends = time.monotonic() + WITHIN
        while not holds():
            if time.monotonic() > ends:
                raise Differs(f"waited {WITHIN:g} s for {what}; logs: {FOLDER / 'logs'}")
            self._look_at_queue()
            time.sleep(0.1)


def _json(url: str, *, token: str, method: str = "GET", body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def _path(doc: dict[str, Any]) -> str:
    """Return the collection of an example's object."""
    plural = {"Deployment": "deployments", "PropagationPolicy": "propagationpolicies"}[doc["kind"]]
    return f"/apis/{doc['apiVersion']}/namespaces/default/{plural}"


def _shown(placed: dict[str, int]) -> str:
    return ", ".join(f"{name}:{count}" for name, count in sorted(placed.items()))


if __name__ == "__main__":
    sys.exit(main())

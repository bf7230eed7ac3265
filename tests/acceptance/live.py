"""The whole product, running: members over HTTP, API, Celery worker, beat, members process; asked from outside only."""

from __future__ import annotations

import http.client
import inspect
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import yaml

from apps.objects.transaction import CHANGES_CHANNEL
from apps.simulator.members import FleetProcess, ask, start_fleet_process
from tests.api.server import Answer, Client, Server

Document = dict[str, Any]

MEMBERS = tuple(f"member{number}" for number in range(1, 6))
NEVER_FAILS = MEMBERS[1]
WITHIN = 60.0  # seconds anything may take on a machine that has much else to do
TIDIED_WITHIN = 240.0  # the same for taking away all a test has made: a hundred workloads on five members
LAST_WORDS = 20  # Events shown where something took too long
UNHEARD = 0.25  # seconds after which is looked again, whatever is heard: what members do and do not tell
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
CONFIGURATION = "/apis/failover.lifeboat.io/v1alpha1/failoverconfigurations"
FLEET_READINESS = "/apis/failover.lifeboat.io/v1alpha1/fleetreadinesses/fleet"
RECORDS = "/apis/failover.lifeboat.io/v1alpha1/namespaces/{}/failoverrecords"
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/{}/resourcebindings"
SECRETS = "karmada-cluster"

# Seconds and parts of them, so that a test is over soon; what is decided is the same.
QUICK = {
    "feature_gates": "Failover=true,StatefulFailoverInjection=true",
    "cluster_status_update_frequency": "0.5",
    "cluster_success_threshold": "1",
    "cluster_failure_threshold": "1",
    "cluster_monitor_period": "0.5",
    "resource_eviction_rate": "1000",
    "secondary_resource_eviction_rate": "1000",
    "graceful_eviction_timeout": "60",
    "lease_seconds": "2",
}


class Live:
    """The running product as its users see it: the API over HTTP, and the members they own."""

    def __init__(self, server: Server, fleet: FleetProcess) -> None:
        self.server = server
        self.fleet = fleet
        self.api = server.client()
        self._changes = psycopg.connect(server.environment["DATABASE_URL"], autocommit=True)
        self._crippled: set[str] = set()  # members with nodes that are not Ready
        self._made: list[str] = []  # URLs of objects without a namespace, to be removed

    # What is done

    def apply(self, *given: str | Document, namespace: str = "") -> list[Document]:
        """Create the objects of manifests (texts may hold several); return them. Removed when the test is over."""
        found: list[Document] = []
        for one in given:
            documents = yaml.safe_load_all(one) if isinstance(one, str) else (one,)
            found += [self._create(doc, namespace) for doc in documents]
        return found

    def _create(self, doc: Document, namespace: str) -> Document:
        where = path_of(doc, namespace)
        answer = self.ask("POST", where, doc)
        assert answer.status == 201, (where, answer.body)
        if "/namespaces/" not in where:
            self._made.append(f"{where}/{doc['metadata']['name']}")
        return answer.document

    def namespace(self, name: str) -> str:
        """Make a namespace; everything in it goes with it when the test is over."""
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    def configure(self, **spec: Any) -> None:
        """Let settings take effect for as long as the test runs."""
        self.apply(
            {
                "apiVersion": "failover.lifeboat.io/v1alpha1",
                "kind": "FailoverConfiguration",
                "metadata": {"name": "default"},
                "spec": spec,
            }
        )

    def patch(self, path: str, patch: Document) -> Document:
        """Merge-patch an object."""
        answer = self.ask("PATCH", path, patch, type="application/merge-patch+json")
        assert answer.status == 200, (path, answer.body)
        return answer.document

    def fail(self, *members: str, fault: str = "down") -> None:
        for one in members:
            self.fleet.set_fault(one, fault)

    def heal(self, *members: str) -> None:
        for one in members or MEMBERS:
            self.fleet.set_fault(one, "none")

    def pods_ready_after(self, seconds: float, *members: str) -> None:
        """Let pods that start from now on take so long to become ready."""
        for one in members or MEMBERS:
            ask(self.fleet.known["control"], "PUT", f"/members/{one}/settings", {"readyAfter": seconds})

    def nodes(self, **ready: int) -> None:
        """Let only so many nodes be Ready; return when Lifeboat has seen it. Mended when the test is over."""
        self._crippled |= set(ready)
        for name, count in ready.items():
            nodes = self.member(name, "GET", "/api/v1/nodes")["items"]
            for place, node in enumerate(one["metadata"]["name"] for one in nodes):
                path = f"/members/{name}/nodes/{node}"
                ask(self.fleet.known["control"], "PUT", path, {"ready": place < count})
        for name, count in ready.items():
            self.until(lambda name=name, count=count: self._ready_nodes(name) == count)

    def _ready_nodes(self, name: str) -> int:
        summary = self.get(f"{CLUSTERS}/{name}")["status"].get("nodeSummary") or {}
        return int(summary.get("readyNum", 0))

    def user(self, name: str) -> Client:
        """Return the connection of a program of its own: a login with the right to write, and a token of its own."""
        self.server.manage("createsuperuser", "--noinput", "--username", name, "--email", f"{name}@example.io")
        return self.server.client(self.server.manage("token", "create", "--user", name))

    # What is seen

    def get(self, path: str) -> Document:
        """Return the document there; empty where there is none."""
        answer = self.ask("GET", path)
        if answer.status == 404:
            return {}
        assert answer.status == 200, (path, answer.body)
        return answer.document

    def ask(self, method: str, path: str, body: Any = None, **options: str) -> Answer:
        """Return the API's answer; asked again where the server had closed a connection kept for long."""
        try:
            return self.api.ask(method, path, body, **options)
        except (OSError, http.client.HTTPException):
            self.api = self.server.client()
            return self.api.ask(method, path, body, **options)

    def items(self, path: str) -> list[Document]:
        """Return all objects of a collection."""
        found: list[Document] = self.get(path)["items"]
        return found

    def binding(self, namespace: str, name: str) -> Document:
        return self.get(f"{BINDINGS.format(namespace)}/{name}")

    def placed(self, namespace: str, name: str) -> dict[str, int]:
        """Return a binding's targets and their replicas."""
        clusters = self.binding(namespace, name).get("spec", {}).get("clusters") or ()
        return {one["name"]: one.get("replicas", 0) for one in clusters}

    def tasks(self, namespace: str, name: str) -> list[Document]:
        """Return the copies of a binding that are leaving."""
        return list(self.binding(namespace, name)["spec"].get("gracefulEvictionTasks") or ())

    def ready(
        self, namespace: str, name: str, plural: str = "deployments", *, of: Sequence[str] = MEMBERS
    ) -> dict[str, int]:
        """Return ready replicas by member, as the members that can be reached say themselves, asked in the order of
        `of`: a caller that adds them up while a workload moves asks the member it leaves first."""
        path = f"/apis/apps/v1/namespaces/{namespace}/{plural}/{name}"
        held = {member: self.member(member, "GET", path) for member in of}
        return {member: doc.get("status", {}).get("readyReplicas", 0) for member, doc in held.items() if doc}

    def taints(self, cluster: str, *effects: str) -> list[Document]:
        """Return a cluster's taints, of those effects where some are named."""
        taints = self.get(f"{CLUSTERS}/{cluster}")["spec"].get("taints") or ()
        return [one for one in taints if not effects or one["effect"] in effects]

    def condition(self, doc: Document, kind: str) -> Document:
        """Return a condition of an object, empty where it has none of that type."""
        return next((one for one in doc.get("status", {}).get("conditions") or () if one["type"] == kind), {})

    def member(self, name: str, method: str, path: str, body: Any = None, type: str = "application/json") -> Any:
        """Ask a member itself, as its own people do; None where it says 404 or cannot be reached."""
        known = self.fleet.member(name)
        headers = {"Authorization": f"Bearer {known['token']}", "Content-Type": type}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(known["url"] + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=WITHIN) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise AssertionError(f"{name} {method} {path}: {error.code} {error.read()[:500]!r}") from error
        except OSError:
            return None

    def is_ready(self, cluster: str) -> bool:
        return self.condition(self.get(f"{CLUSTERS}/{cluster}"), "Ready").get("status") == "True"

    def until(self, holds: Any, *, within: float = WITHIN) -> Any:
        """Return what `holds` returns as soon as it is true: looked at when the product has written something.

        Raises AssertionError where that takes too long. A machine that stood still between two looks counts as one
        second, however long that was.
        """
        left, looked = within, time.monotonic()
        with self._listening():
            while not (found := holds()):
                list(self._changes.notifies(timeout=UNHEARD, stop_after=1))
                left, looked = left - min(time.monotonic() - looked, 1.0), time.monotonic()
                assert left > 0, f"not within {within:g} s: {inspect.getsource(holds).strip()}\n{self._last_words()}"
        return found

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Hear of changes as long as a test reads them: a session that cannot send on what it heard stands in the way
        of every DROP DATABASE of the server."""
        self._changes.execute(f"LISTEN {CHANGES_CHANNEL}")
        try:
            yield
        finally:
            self._changes.execute("UNLISTEN *")

    def _last_words(self) -> str:
        """Return the latest Events, for a reader who has to find out what the product waited for."""
        events = sorted(self.items("/api/v1/events"), key=lambda one: one.get("lastTimestamp") or "")[-LAST_WORDS:]
        about = [one["involvedObject"] for one in events]
        return "\n".join(
            f"{one.get('lastTimestamp')} {of.get('kind')} {of.get('namespace', '')}/{of.get('name')} "
            f"{one.get('reason')} ×{one.get('count')}: {one.get('message')}"
            for one, of in zip(events, about, strict=True)
        )

    def settled(self, namespace: str, *names: str) -> bool:
        """Test whether every copy of these bindings is reported healthy, and none is leaving."""
        found = {one["metadata"]["name"]: one for one in self.items(BINDINGS.format(namespace))}
        return all(name in found and self._is_settled(found[name]) for name in names)

    def _is_settled(self, binding: Document) -> bool:
        spec, status = binding["spec"], binding.get("status", {})
        placed = {one["name"] for one in spec.get("clusters") or ()}
        items = status.get("aggregatedStatus") or ()
        healthy = {one["clusterName"] for one in items if one.get("health") == "Healthy"}
        return bool(placed) and placed <= healthy and not spec.get("gracefulEvictionTasks")

    def passes(self, seconds: float) -> None:
        """Wait until so much time has passed for the product: its members were probed that often again."""
        wanted = seconds / float(QUICK["cluster_status_update_frequency"])
        last = self.fleet.requests(NEVER_FAILS)[-1]["number"]
        self.until(lambda: self._probes(after=last) >= wanted)

    def _probes(self, *, after: int) -> int:
        """Return how often the member that no test lets fail was probed since a request; its log keeps the last ones
        only."""
        return sum(one["path"].startswith("/readyz") for one in self.fleet.requests(NEVER_FAILS, after=after))

    def close(self) -> None:
        """Listen no longer."""
        self._changes.close()

    # Between tests

    def join(self) -> None:
        """Join all members as an administrator does; return when they are Ready and read."""
        for name in MEMBERS:
            known = self.fleet.member(name)
            secret = {"metadata": {"name": name}, "stringData": {"token": known["token"]}}
            assert self.api.post(f"/api/v1/namespaces/{SECRETS}/secrets", secret).status == 201
            spec = {
                "syncMode": "Push",
                "apiEndpoint": known["url"],
                "secretRef": {"namespace": SECRETS, "name": name},
            }
            joined = self.api.post(CLUSTERS, {"metadata": {"name": name}, "spec": spec})
            assert joined.status == 201, joined.body
        self.until(
            lambda: all(self.get(f"{CLUSTERS}/{name}").get("status", {}).get("apiEnablements") for name in MEMBERS)
        )

    def tidy(self) -> None:
        """Leave the fleet as a test finds it: healthy, without taints, and with nothing on it."""
        self.heal()
        self.pods_ready_after(READY_AFTER)
        for url in reversed(self._made):
            answer = self.ask("DELETE", url)
            assert answer.status in (200, 202, 404), (url, answer.body)
        made, self._made = self._made, []
        crippled, self._crippled = self._crippled, set()
        for name in MEMBERS:
            self.until(lambda name=name: self._is_whole(name))
        self.until(lambda: not any(self.get(url) for url in made), within=TIDIED_WITHIN)
        self.until(lambda: not self.items("/apis/work.karmada.io/v1alpha1/works"), within=TIDIED_WITHIN)
        self.nodes(**dict.fromkeys(crippled, NODES))
        self._crippled.clear()

    def _is_whole(self, name: str) -> bool:
        """Test whether a cluster is Ready and nothing keeps workloads from it; what people left there is taken off."""
        cluster = self.get(f"{CLUSTERS}/{name}")
        taints = cluster["spec"].get("taints") or []
        ready = self.condition(cluster, "Ready").get("status") == "True"
        if not ready or not taints:
            return ready
        owned = cluster["metadata"].get("annotations", {}).get("failover.lifeboat.io/taint-owners", "")
        if not owned:
            self.patch(f"{CLUSTERS}/{name}", {"spec": {"taints": None}})
        return False


READY_AFTER = 0.1  # seconds pods of the members need
NODES = 3  # of a member


def path_of(doc: Document, namespace: str = "") -> str:
    """Return the URL of a document's collection; what has no namespace of its own goes to the one given."""
    group_version, kind = doc["apiVersion"], doc["kind"]
    root = "/api" if "/" not in group_version else "/apis"
    plural = kind.lower()
    plural = f"{plural[:-1]}ies" if plural.endswith("y") else f"{plural}s"
    home = doc["metadata"].get("namespace") or ("" if kind in FLEET_WIDE else namespace)
    return f"{root}/{group_version}/{f'namespaces/{home}/' if home else ''}{plural}"


FLEET_WIDE = frozenset(
    (
        *("Namespace", "Cluster", "CustomResourceDefinition", "ClusterTaintPolicy", "ClusterPropagationPolicy"),
        *("Drain", "EvictionHold", "MaintenanceWindow", "FailoverConfiguration"),
    )
)


@contextmanager
def live(folder: Path, *, name: str, redis_url: str) -> Iterator[Live]:
    """Run all of it for as long as the block lasts."""
    server = Server(folder / "api", name=name, REDIS_URL=redis_url, **environment())
    with (
        start_fleet_process(folder / "members", members=list(MEMBERS), ready_after=READY_AFTER) as fleet,
        server,
    ):
        with server.processes.at_once():
            server.processes.worker()
            server.processes.beat()
            server.processes.members()
        with closing(Live(server, fleet)) as running:
            running.join()
            yield running


def environment() -> dict[str, str]:
    """Return QUICK as the product's processes read it."""
    return {f"LIFEBOAT_{name.upper()}": value for name, value in QUICK.items()} | {
        "DJANGO_SUPERUSER_PASSWORD": "correct-horse-battery",
        "LIFEBOAT_CLIENT_CERTIFICATES": "tls",
    }

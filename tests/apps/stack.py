"""The running product of a test: simulated members over HTTP, Celery workers, beat, the members process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from apps.clusters.joining import create_missing, from_list, join
from apps.objects.configuration import base
from apps.objects.namespaces import make_namespaces
from apps.objects.store import DjangoStore
from apps.simulator.members import FleetProcess, start_fleet_process
from apps.worker.groups import tick_names
from controlplane import kinds
from controlplane.apimachinery.meta import Ref
from controlplane.controllers import CONTROLLERS
from controlplane.engine.state import Change
from controlplane.settings import Settings
from tests.processes import Process, Processes, environment, ring, until

# Seconds and parts of them, so that a test is over soon; what is decided is the same.
QUICK = {
    "feature_gates": "Failover=true",
    "cluster_status_update_frequency": "0.5",
    "cluster_success_threshold": "1",
    "cluster_failure_threshold": "1",
    "cluster_monitor_period": "0.5",
    "resource_eviction_rate": "1000",
    "graceful_eviction_timeout": "60",
    "lease_seconds": "2",
}
WITHIN = 60.0  # seconds anything may take on a machine that has much else to do
LEAVE_WHERE_NOT_READY = """
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterTaintPolicy
metadata: {name: leave-where-not-ready}
spec:
  matchConditions: [{conditionType: Ready, operator: In, statusValues: ["False", Unknown]}]
  taintsToAdd: [{key: example.io/not-ready, effect: NoExecute, addOnMatchSeconds: 1, removeOnMismatchSeconds: 1}]
"""


class Stack:
    """What a test does with the product, and what it sees of it."""

    def __init__(self, processes: Processes, redis_url: str, fleet: FleetProcess | None) -> None:
        self.processes = processes
        self.redis_url = redis_url
        self.fleet = fleet
        self.store = DjangoStore(controllers=CONTROLLERS)
        self.watching: Process | None = None  # the members process

    def up(self) -> Process:
        """Start worker, beat and members; return the worker."""
        with self.processes.at_once():
            worker = self.processes.worker()
            self.processes.beat()
            self.watching = self.processes.members()
        return worker

    def ring(self, *names: str) -> None:
        """Send ticks, all of them where none is named."""
        ring(names or tick_names(), redis_url=self.redis_url)

    def create(self, text: str) -> None:
        """Create the objects of a YAML text as a user would."""
        make_namespaces(self.store)
        create_missing(self.store, text, Settings())

    def join(self, *names: str) -> None:
        """Join members; return when they are Ready and read."""
        assert self.fleet is not None
        members = [one for one in from_list(self.fleet.directory / "members.json") if one.name in names]
        join(self.store, members, base())
        until(lambda: all(self.is_usable(name) for name in names), within=WITHIN)

    def cluster(self, name: str) -> Any:
        return self.get(Ref(kinds.CLUSTER, "", name))

    def is_usable(self, name: str) -> bool:
        cluster = self.cluster(name)
        return cluster is not None and cluster.ready == "True" and bool(cluster.status.api_enablements)

    def get(self, ref: Ref) -> Any:
        return self.store.get([ref]).get(ref)

    def binding(self, name: str) -> Any:
        return self.get(Ref(kinds.RESOURCE_BINDING, "default", f"{name}-deployment"))

    def placed(self, name: str) -> dict[str, int]:
        """Return a Deployment's targets and their replicas."""
        binding = self.binding(name)
        return {} if binding is None else {one.name: one.replicas for one in binding.spec.clusters}

    def healthy(self, name: str) -> set[str]:
        """Return the clusters a Deployment is known to be healthy on."""
        binding = self.binding(name)
        items = () if binding is None else binding.status.aggregated_status
        return {one.cluster_name for one in items if one.health == "Healthy"}

    def works(self) -> Sequence[Any]:
        """Return the Works of workloads, not those of namespaces."""
        return [one for one in self.store.list(kinds.WORK) if one.manifest.get("kind") == "Deployment"]

    def changes(self, since: int = 0) -> list[Change]:
        """Return the change log from a version on."""
        found: list[Change] = []
        while page := self.store.changes(since):
            found += page
            since = page[-1].version
        return found

    def holders(self) -> dict[str, str]:
        """Return who holds which group now."""
        from apps.objects.models import Lease

        now = self.store.now()
        return {one.name: one.holder for one in Lease.objects.all() if one.until > now}

    def member(self, name: str, method: str, path: str, body: Any = None) -> Any:
        """Ask a member itself, as its own people do; None where it says 404."""
        assert self.fleet is not None
        known = self.fleet.member(name)
        headers = {"Authorization": f"Bearer {known['token']}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(known["url"] + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=WITHIN) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


@contextmanager
def stack(folder: Path, redis_url: str, *members: str, **settings: str) -> Iterator[Stack]:
    """Give the product with these simulated members; nothing of it is started yet but they."""
    own = environment(folder, redis_url=redis_url, **{**QUICK, **settings})
    with Processes(folder / "logs", own) as processes:
        if not members:
            yield Stack(processes, redis_url, None)
            return
        with start_fleet_process(folder / "members", members=list(members), ready_after=0.1) as fleet:
            try:
                yield Stack(processes, redis_url, fleet)
            finally:
                processes.__exit__()


def deployment(name: str, replicas: int = 1) -> str:
    """Return the manifest of a Deployment."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    return yaml.safe_dump(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }
    )


def policy(*clusters: str, groups: int = 0) -> str:
    """Return a policy for all Deployments of `default`: a copy on each cluster, on `groups` of them where given."""
    placement: dict[str, Any] = {"clusterAffinity": {"clusterNames": list(clusters)}}
    placement["replicaScheduling"] = {"replicaSchedulingType": "Duplicated"}
    if groups:
        placement["spreadConstraints"] = [{"spreadByField": "cluster", "minGroups": groups, "maxGroups": groups}]
    return yaml.safe_dump(
        {
            "apiVersion": "policy.karmada.io/v1alpha1",
            "kind": "PropagationPolicy",
            "metadata": {"name": "everywhere", "namespace": "default"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                "placement": placement,
            },
        }
    )

"""A member cluster as a value machine: answers questions by the virtual clock, with faults to order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from controlplane.clusters import drift
from controlplane.clusters.questions import (
    NOT_OURS,
    Answer,
    Collect,
    Discard,
    Ensure,
    Observe,
    Probe,
    Question,
    retaining,
)

UP, DOWN, UNAUTHORIZED, NEVER_READY = "none", "down", "unauthorized", "notready"
UNHEARD = "unheard"  # it does what it is asked, and its answer to that is lost
UNREAD = "unread"  # it answers, and runs what it is sent, but what it has takes longer to tell than anybody waits

FLINK, DEFINITION, JOB = "FlinkDeployment", "CustomResourceDefinition", "Job"

APIS: tuple[dict[str, Any], ...] = (  # what every member serves
    {
        "groupVersion": "apps/v1",
        "resources": [{"name": "deployments", "kind": "Deployment"}, {"name": "statefulsets", "kind": "StatefulSet"}],
    },
    {
        "groupVersion": "apiextensions.k8s.io/v1",
        "resources": [{"name": "customresourcedefinitions", "kind": DEFINITION}],
    },
    {"groupVersion": "batch/v1", "resources": [{"name": "jobs", "kind": JOB}]},
    {"groupVersion": "storage.k8s.io/v1", "resources": [{"name": "storageclasses", "kind": "StorageClass"}]},
    {
        "groupVersion": "v1",
        "resources": [
            {"name": "configmaps", "kind": "ConfigMap"},
            {"name": "namespaces", "kind": "Namespace"},
            {"name": "secrets", "kind": "Secret"},
            {"name": "services", "kind": "Service"},
        ],
    },
)

COMPLETE = {"type": "Complete", "status": "True"}

Place = tuple[str, str, str, str]  # apiVersion, kind, namespace, name


def place_of(manifest: dict[str, Any]) -> Place:
    """Return where an object of a manifest is kept."""
    metadata = manifest["metadata"]
    return manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""), metadata["name"]


@dataclass
class Held:
    """An object of the member: since when its present spec runs, and how many of its replicas were ready before."""

    manifest: dict[str, Any]
    generation: int
    since: datetime
    before: int = 0

    @property
    def wanted(self) -> int:
        """How many replicas the spec asks for."""
        count: int = self.manifest.get("spec", {}).get("replicas", 1)
        return count


@dataclass
class Member:
    """A simulated cluster. `ready_after`: how long a Deployment takes until all its replicas are ready. `job_takes`:
    how long a Job runs.

    `reports_pods` False: its reports say that all its room is free, whatever runs there. `strict`: an object that is
    not ours (`released`) is neither seen nor changed, but to take it over, and what was changed there is reported, as
    by the client of real members. `reports`: what it reports instead of a status.
    """

    name: str
    ready_after: timedelta = timedelta(seconds=5)
    job_takes: timedelta = timedelta(seconds=20)
    cpu: int = 1000
    pods: int = 1000
    fault: str = UP
    reports_pods: bool = False
    quotas: Sequence[dict[str, Any]] = ()  # its ResourceQuotas
    objects: dict[Place, Held] = field(default_factory=dict)
    created: list[tuple[datetime, Place, dict[str, str]]] = field(default_factory=list)  # with the labels it came with
    released: set[Place] = field(default_factory=set)  # objects that were left to it, or are of its own users
    strict: bool = False
    reports: Callable[[dict[str, Any]], Any] | None = None
    looked_at: datetime | None = None  # up to when `turned` has reported what became ready

    def answer(self, question: Question, *, now: datetime) -> Answer:
        """Return what the cluster says, or fails to say."""
        answer = self._answer(question, now=now)
        lost = self.fault == UNHEARD and isinstance(question, Ensure | Discard)
        return Answer(0, problem="timed out") if lost else answer

    def _answer(self, question: Question, *, now: datetime) -> Answer:
        if self.fault == DOWN:
            return Answer(0, problem="connection refused")
        if self.fault == UNAUTHORIZED:
            return Answer(401, problem="HTTP 401: Unauthorized", access=True)
        if isinstance(question, Probe):
            return Answer(200, "ok")
        if isinstance(question, Collect) and self.fault == UNREAD:
            return Answer(0, problem="timed out")
        if isinstance(question, Collect):
            quotas = {"resourcequotas": list(self.quotas)} if question.quotas else {}
            return Answer(200, self._summary(resources=question.resources) | quotas)
        if isinstance(question, Ensure):
            held = self.objects.get(place_of(question.manifest))
            if self.is_of_others(place_of(question.manifest)) and not question.overwrite:
                return Answer(409, problem="an object of that name exists and is not ours", reason=NOT_OURS)
            return self._ensure(question.manifest if held is None else question.over(held.manifest), now=now)
        if isinstance(question, Discard) and self.is_of_others(place_of(question.manifest)):
            return Answer(404, problem="not ours")
        if isinstance(question, Discard):
            if question.release:
                self.released.add(place_of(question.manifest))
                return Answer(200)
            self._remove(place_of(question.manifest))
            return Answer(404, problem="gone")
        assert isinstance(question, Observe)
        held = self.seen(place_of(question.manifest))
        if held is None:
            return Answer(404, problem="not found")
        found = self.document(held, now=now)
        changes = drift.differences(retaining(question.manifest, found), found) if self.strict else []
        return Answer(200, found, drift=drift.described(changes, kind=held.manifest["kind"]))

    def is_of_others(self, place: Place) -> bool:
        """Test whether an object is there that is not ours."""
        return self.strict and place in self.released and place in self.objects

    def seen(self, place: Place) -> Held | None:
        """Return an object as a watch on ours reports it; None: it does not."""
        return None if self.is_of_others(place) else self.objects.get(place)

    def _remove(self, place: Place) -> None:
        """Remove an object; with a Namespace goes everything in it, with a definition all objects of its kind."""
        self.objects.pop(place, None)
        if place[1] == DEFINITION:
            self.objects = {other: held for other, held in self.objects.items() if other[1] != FLINK}
        if place[:2] == ("v1", "Namespace"):
            self.objects = {other: held for other, held in self.objects.items() if other[2] != place[3]}

    def _ensure(self, manifest: dict[str, Any], *, now: datetime) -> Answer:
        place = place_of(manifest)
        namespace = place[2]
        if namespace and ("v1", "Namespace", "", namespace) not in self.objects and namespace != "default":
            return Answer(404, problem=f'namespaces "{namespace}" not found')
        if place[1] == FLINK and DEFINITION not in (one[1] for one in self.objects):
            return Answer(404, problem=f"no matches for kind {FLINK}")
        held = self.objects.get(place)
        self.released.discard(place)
        if held is None:
            self.objects[place] = Held(manifest, 1, now)
            self.created.append((now, place, dict(manifest["metadata"].get("labels") or {})))
        elif held.manifest.get("spec") != manifest.get("spec"):
            self.objects[place] = Held(manifest, held.generation + 1, now, self._ready(held, now=now))
        else:
            held.manifest = manifest
        return Answer(200, self.document(self.objects[place], now=now))

    def healthy_since(self, held: Held) -> datetime | None:
        """Return when the object is ready; None where it never will be."""
        takes = self.job_takes if held.manifest["kind"] == JOB else self.ready_after
        return None if self.fault == NEVER_READY else held.since + takes

    def ready_replicas(self, place: Place, *, now: datetime) -> int:
        """Return how many replicas of a workload serve at this moment; none where the cluster is down."""
        held = self.objects.get(place)
        return 0 if held is None or self.fault == DOWN else self._ready(held, now=now)

    def _ready(self, held: Held, *, now: datetime) -> int:
        """All once `ready_after` has passed; until then those that were ready before the last change."""
        since = self.healthy_since(held)
        return held.wanted if since is not None and now >= since else min(held.before, held.wanted)

    def document(self, held: Held, *, now: datetime) -> dict[str, Any]:
        """Return the object as the member serves it, status by the clock."""
        wanted, ready = held.wanted, self._ready(held, now=now)
        metadata = {**held.manifest["metadata"], "generation": held.generation, "uid": f"{self.name}-uid"}
        status: dict[str, Any] = {}
        if held.manifest["kind"] in ("Deployment", "StatefulSet"):
            status = {
                "observedGeneration": held.generation,
                "replicas": wanted,
                "updatedReplicas": wanted,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "unavailableReplicas": wanted - ready,
            }
        if held.manifest["kind"] == JOB:
            done = {"succeeded": held.manifest["spec"].get("completions", 1), "conditions": [COMPLETE]}
            status = {"startTime": f"{held.since:%Y-%m-%dT%H:%M:%SZ}", **(done if ready else {"active": 1})}
        if held.manifest["kind"] == FLINK:
            job = {"state": "RUNNING", "jobID": f"{self.name}-job"} if ready else {"state": "RECONCILING"}
            status = {"jobStatus": job, "jobManagerDeploymentStatus": "READY" if ready else "DEPLOYING"}
        reported = status if self.reports is None else self.reports(status)
        return {**held.manifest, "metadata": metadata, "status": reported}

    def kept(self) -> dict[Place, Held]:
        """Return the objects as they are now, to be put back later."""
        return {place: replace(held) for place, held in self.objects.items()}

    def next_change(self, *, now: datetime) -> datetime | None:
        """Return when an object becomes ready next, without anybody doing anything."""
        coming = [since for since in self._healthy_since() if since > now]
        return min(coming) if coming else None

    def turned(self, *, now: datetime) -> bool:
        """Test whether an object became ready since this was asked last."""
        since, self.looked_at = self.looked_at, now
        return bool([moment for moment in self._healthy_since() if moment <= now and (since is None or moment > since)])

    def _healthy_since(self) -> list[datetime]:
        """Return when each object is ready that will be."""
        found = [self.healthy_since(held) for held in self.objects.values()]
        return [moment for moment in found if moment is not None]

    def _summary(self, *, resources: bool) -> dict[str, Any]:
        apis = list(APIS)
        if any(place[1] == DEFINITION for place in self.objects):
            flink = {"name": "flinkdeployments", "kind": FLINK}
            apis.append({"groupVersion": "flink.apache.org/v1beta1", "resources": [flink]})
        node = {
            "metadata": {"name": f"{self.name}-node"},
            "status": {
                "allocatable": {"cpu": str(self.cpu), "memory": f"{self.cpu * 4}Gi", "pods": str(self.pods)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        body: dict[str, Any] = {"version": {"gitVersion": "v1.32.0"}, "apis": apis, "nodes": None, "pods": None}
        if resources:
            body |= {"nodes": [node], "pods": self._pods() if self.reports_pods else []}
        return body

    def _pods(self) -> list[dict[str, Any]]:
        """Return the pods of all workloads, as far as free capacity depends on them."""
        pod = {"spec": {"nodeName": f"{self.name}-node", "containers": []}, "status": {"phase": "Running"}}
        workloads = (held for held in self.objects.values() if held.manifest["kind"] == "Deployment")
        return [pod for held in workloads for _ in range(held.wanted)]

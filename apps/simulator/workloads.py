"""The controllers, scheduler and kubelets of a member: workloads get pods, pods get nodes and become ready.

They also finish deletions. There is a single level-triggered loop: every change makes an object and its owner due, and
a second look at the same object changes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from apps.simulator import nodes, pods, status, strategies
from apps.simulator.catalogue import DEFINITIONS, Catalogue
from apps.simulator.objects import FOREGROUND, ORPHAN, Objects, stamp
from apps.simulator.store import Change, Key, Stored, key_of
from controlplane.wire.definition import CLEANUP_FINALIZER, status_of
from controlplane.wire.resource import Resource
from controlplane.wire.watch import DELETED

Document = dict[str, Any]
Due = tuple[str, Key]

POD = "Pod"
BATCH = 100  # objects per turn; requests are answered between turns
_REPORTS: dict[str, Callable[..., Document]] = {
    "apps/Deployment": status.deployment,
    "apps/ReplicaSet": status.replica_set,
    "apps/StatefulSet": status.stateful_set,
    "apps/DaemonSet": status.daemon_set,
    "batch/Job": status.job,
}


class Workloads:
    """The controllers, the scheduler and the kubelets of one member."""

    def __init__(
        self, objects: Objects, *, ready_after: float, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self.ready_after = ready_after
        self.frozen = False  # True: pods do not become ready
        self._objects = objects
        self._store = objects.store
        self._catalogue: Catalogue = objects.catalogue
        self._clock = clock
        self._wake = wake
        self._capacity = nodes.NodeCapacity()
        self._due: dict[Due, None] = {}
        self._later: list[tuple[float, Due]] = []
        self._ready_at: dict[Key, float] = {}
        self._waiting: set[Key] = set()  # pods without a node
        self._pods_of: dict[str, set[Key]] = {}  # by the owner's uid
        self._dependents: dict[str, set[Due]] = {}  # by the owner's uid, pods included
        self._owners: dict[str, Due] = {}  # the object with each uid
        self._counter = 0
        self._resources = {resource.key: resource for resource in self._catalogue.all()}
        self._store.on_change.append(self._noticed)

    def set_ready_after(self, seconds: float) -> None:
        """Set the time until pods become ready. For pods that are starting, it begins now."""
        self.ready_after = seconds
        now = self._clock()
        for key in self._ready_at:
            self._ready_at[key] = now + seconds
            heapq.heappush(self._later, (now + seconds, (POD, key)))
        self._wake()

    def freeze(self, frozen: bool) -> None:
        """Stop pods from becoming ready, or allow it again."""
        self.frozen = frozen
        self.set_ready_after(self.ready_after)

    def run(self) -> float | None:
        """Process some due objects. Return the seconds until the next object is due; None: none will be."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            self._due[heapq.heappop(self._later)[1]] = None
        for _ in range(min(BATCH, len(self._due))):
            due = next(iter(self._due))
            del self._due[due]
            self._look_at(*due)
        if self._due:
            return 0.0
        return max(0.0, self._later[0][0] - now) if self._later else None

    def _noticed(self, kind: str, change: Change) -> None:
        """Update the indexes after a change, and make the concerned objects due."""
        document = change.new.document
        metadata = document["metadata"]
        key = key_of(document)
        due = (kind, key)
        gone = change.event == DELETED
        if gone:
            self._owners.pop(metadata["uid"], None)
            self._due.update(dict.fromkeys(self._dependents.get(metadata["uid"], ())))
        else:
            self._owners[metadata["uid"]] = due
            self._due[due] = None
        for reference in metadata.get("ownerReferences") or ():
            _note(self._dependents, reference["uid"], due, gone)
            if reference["uid"] in self._owners:
                self._due[self._owners[reference["uid"]]] = None
        if kind == POD:
            self._noticed_pod(change, key, gone)
        elif kind == "Node":
            self._capacity.set_node(key[1], None if gone else document)
            self._due.update(dict.fromkeys((POD, pod) for pod in self._waiting))
            self._due.update(
                dict.fromkeys(("apps/DaemonSet", key_of(s.document)) for s in self._store.all("apps/DaemonSet"))
            )
        elif kind == DEFINITIONS:
            (self._catalogue.forget if gone else self._catalogue.define)(document)
            self._resources = {resource.key: resource for resource in self._catalogue.all()}
        if gone and key[0]:
            self._due["Namespace", ("", key[0])] = None
        if gone and self._catalogue.is_ending(resource := self._resources[kind]):
            self._due[DEFINITIONS, ("", f"{resource.plural}.{resource.group}")] = None
        self._wake()

    def _noticed_pod(self, change: Change, key: Key, gone: bool) -> None:
        old = change.old.document if change.old else None
        new = None if gone else change.new.document
        was, now = _holds(old), _holds(new)
        if was != now:
            if old is not None and was:
                self._capacity.take(was, nodes.demand_of(old["spec"]), -1)
                self._due.update(dict.fromkeys((POD, pod) for pod in self._waiting))
            if new is not None and now:
                self._capacity.take(now, nodes.demand_of(new["spec"]))
        uid = pods.owner_uid(change.new.document)
        if uid:
            _note(self._pods_of, uid, key, gone)
        if gone:
            self._ready_at.pop(key, None)
            self._waiting.discard(key)

    def _look_at(self, kind: str, key: Key) -> None:
        stored = self._store.get(kind, *key)
        if stored is None:
            return
        metadata = stored.document["metadata"]
        if metadata.get("deletionTimestamp") and self._finish_deletion(kind, stored):
            return
        if metadata.get("ownerReferences") and self._orphaned(kind, stored):
            return
        if kind == POD:
            self._look_at_pod(key, stored)
        elif kind in _REPORTS and not metadata.get("deletionTimestamp"):
            self._look_at_workload(kind, stored)
        elif kind in _FULFILLED:
            document = stored.document
            wanted = _FULFILLED[kind](document)
            if wanted is not None:
                self._objects.set_status(self._resources[kind], stored, wanted)

    def _finish_deletion(self, kind: str, stored: Stored) -> bool:
        """Continue the deletion of an object. Return True if nothing else is to be done for it."""
        document = stored.document
        metadata = document["metadata"]
        resource = self._resources[kind]
        if kind == "Namespace":
            return self._empty_namespace(stored)
        finalizers = metadata.get("finalizers", [])
        if kind == DEFINITIONS and CLEANUP_FINALIZER in finalizers:
            return self._empty_kind(resource, stored)
        if strategies.FINALIZERS.get(kind) in finalizers:
            # On a real cluster a claim waits for the pods that use it. Simulated pods do not delay it.
            self._drop_finalizer(resource, document, strategies.FINALIZERS[kind])
            return True
        for policy in (FOREGROUND, ORPHAN):
            if policy not in finalizers:
                continue
            left = [due for due in list(self._dependents.get(metadata["uid"], ())) if self._store.get(due[0], *due[1])]
            for due in left:
                self._release(due, metadata["uid"]) if policy == ORPHAN else self._delete(due)
            if any(self._store.get(due[0], *due[1]) for due in left) and policy == FOREGROUND:
                return True
            self._drop_finalizer(resource, document, policy)
            return True
        return False

    def _drop_finalizer(self, resource: Resource, document: Document, name: str) -> None:
        """Remove a finalizer of an object that is being deleted, and the object with its last finalizer."""
        metadata = document["metadata"]
        rest = [finalizer for finalizer in metadata["finalizers"] if finalizer != name]
        if rest:
            self._store.put(resource, {**document, "metadata": {**metadata, "finalizers": rest}})
        else:
            self._store.remove(resource, *key_of(document))

    def _empty_namespace(self, stored: Stored) -> bool:
        name = stored.document["metadata"]["name"]
        left = False
        for kind in self._store.kinds():
            if not self._resources[kind].namespaced:
                continue
            for inside in self._store.all(kind, name):
                self._delete((kind, key_of(inside.document)))
                left = left or self._store.get(kind, *key_of(inside.document)) is not None
        if not left and not stored.document["metadata"].get("finalizers"):
            self._store.remove(self._resources["Namespace"], "", name)
        return True

    def _empty_kind(self, resource: Resource, stored: Stored) -> bool:
        """Delete the objects of a definition's kind; remove the definition's finalizer when none is left."""
        document = stored.document
        spec = document["spec"]
        kind = f"{spec['group']}/{spec['names']['kind']}"
        for stored_object in self._store.all(kind):
            self._delete((kind, key_of(stored_object.document)))
        if not self._store.count(kind):
            self._drop_finalizer(resource, document, CLEANUP_FINALIZER)
        return True

    def _orphaned(self, kind: str, stored: Stored) -> bool:
        """Delete an object without remaining owners (background deletion). Return whether it was deleted."""
        references = stored.document["metadata"]["ownerReferences"]
        if any(reference["uid"] in self._owners for reference in references):
            return False
        self._delete((kind, key_of(stored.document)))
        return True

    def _delete(self, due: Due) -> None:
        stored = self._store.get(due[0], *due[1])
        if stored is not None and not stored.document["metadata"].get("deletionTimestamp"):
            self._objects.delete(self._resources[due[0]], stored, {"propagationPolicy": "Background"})

    def _release(self, due: Due, uid: str) -> None:
        stored = self._store.get(due[0], *due[1])
        if stored is None:
            return
        metadata = dict(stored.document["metadata"])
        metadata["ownerReferences"] = [owner for owner in metadata["ownerReferences"] if owner["uid"] != uid]
        if not metadata["ownerReferences"]:
            del metadata["ownerReferences"]
        _note(self._dependents, uid, due, True)
        self._store.put(self._resources[due[0]], {**stored.document, "metadata": metadata})

    def _look_at_workload(self, kind: str, stored: Stored) -> None:
        document = stored.document
        spec = document["spec"]
        mark = pods.template_hash(spec["template"])
        family = sorted(self._pods_of.get(document["metadata"]["uid"], ()))
        all_pods = [found.document for key in family if (found := self._store.get(POD, *key))]
        current = [pod for pod in all_pods if pod["metadata"]["labels"].get(pods.HASH) == mark]
        older = [pod for pod in all_pods if pod["metadata"]["labels"].get(pods.HASH) != mark]
        wanted = self._wanted(kind, spec)
        if kind == "batch/Job":
            succeeded = sum(pods.phase(pod) == "Succeeded" for pod in all_pods)
            room = 0 if spec.get("suspend") else min(spec.get("parallelism", 1), wanted - succeeded)
            self._make(document, mark, room - (len(all_pods) - succeeded))
        elif kind == "apps/StatefulSet":
            self._keep_ordinals(document, mark, wanted, all_pods)
        elif kind == "apps/DaemonSet":
            self._keep_on_nodes(document, mark, all_pods)
        else:
            succeeded = 0
            self._make(document, mark, wanted - len(current))
            self._drop([*sorted(current, key=pods.is_ready)][: max(0, len(current) - wanted)])
            # Old pods stay until new pods are ready, except where new pods need their capacity.
            settled = sum(pods.is_ready(pod) or key_of(pod) in self._waiting for pod in current)
            self._drop(older[: max(0, len(older) + settled - wanted)] if wanted else older)
        self._report(kind, document, mark, wanted)

    def _wanted(self, kind: str, spec: Document) -> int:
        if kind == "batch/Job":
            return int(spec.get("completions") or spec.get("parallelism", 1))
        if kind == "apps/DaemonSet":
            return len(self._nodes_for(spec["template"]))
        return int(spec.get("replicas", 1))

    def _nodes_for(self, template: Document) -> list[str]:
        selector = (template.get("spec") or {}).get("nodeSelector") or {}
        usable = self._capacity.nodes()
        chosen = (
            node
            for node in usable
            if all((node["metadata"].get("labels") or {}).get(k) == v for k, v in selector.items())
        )
        return [node["metadata"]["name"] for node in chosen]

    def _make(self, owner: Document, mark: str, count: int) -> None:
        for _ in range(count):
            self._counter += 1
            self._add_pod(owner, mark, f"{owner['metadata']['name'][:200]}-{mark}-{self._counter:05x}")

    def _keep_ordinals(self, owner: Document, mark: str, wanted: int, family: list[Document]) -> None:
        names = [f"{owner['metadata']['name']}-{ordinal}" for ordinal in range(wanted)]
        there = {pod["metadata"]["name"]: pod for pod in family}
        self._drop([pod for name, pod in there.items() if name not in names])
        for name in names:
            pod = there.get(name)
            if pod is not None and pod["metadata"]["labels"].get(pods.HASH) != mark:
                self._drop([pod])
                pod = None
            if pod is None:
                self._add_pod(owner, mark, name)

    def _keep_on_nodes(self, owner: Document, mark: str, family: list[Document]) -> None:
        names = self._nodes_for(owner["spec"]["template"])
        there = {pod["spec"].get("nodeName"): pod for pod in family}
        self._drop([pod for name, pod in there.items() if name not in names])
        for name in names:
            pod = there.get(name)
            if pod is not None and pod["metadata"]["labels"].get(pods.HASH) != mark:
                self._drop([pod])
                pod = None
            if pod is None:
                self._counter += 1
                self._add_pod(owner, mark, f"{owner['metadata']['name']}-{self._counter:05x}", node=name)

    def _add_pod(self, owner: Document, mark: str, name: str, *, node: str = "") -> None:
        made = pods.pod(owner, owner["spec"]["template"], name=name, mark=mark, now=stamp())
        demand = nodes.demand_of(made["spec"])
        place = node or self._capacity.place(made["spec"], demand)
        if place:
            self._start(made, place)
        else:
            made["status"] = pods.pending(made, why="no node has room", now=stamp())
            self._waiting.add(key_of(made))
        self._store.put(self._resources[POD], made)

    def _start(self, made: Document, place: str) -> None:
        made["spec"] = {**made["spec"], "nodeName": place}
        made["status"] = pods.starting(made, now=stamp())
        key = key_of(made)
        self._waiting.discard(key)
        self._ready_at[key] = at = self._clock() + self.ready_after
        heapq.heappush(self._later, (at, (POD, key)))

    def _drop(self, unwanted: list[Document]) -> None:
        for pod in unwanted:
            self._delete((POD, key_of(pod)))

    def _look_at_pod(self, key: Key, stored: Stored) -> None:
        document = stored.document
        resource = self._resources[POD]
        if pods.phase(document) in ("Succeeded", "Failed"):
            return
        place = document["spec"].get("nodeName")
        if not place:
            found = self._capacity.place(document["spec"], nodes.demand_of(document["spec"]))
            if found:
                made = dict(document)
                self._start(made, found)
                self._store.put(resource, made)
            elif key not in self._waiting:
                self._waiting.add(key)
                self._objects.set_status(resource, stored, pods.pending(document, why="no node has room", now=stamp()))
            return
        at = self._ready_at.get(key)
        if at is None:
            is_done = pods.is_ready(document) and document["spec"].get("restartPolicy") in ("Never", "OnFailure")
            if is_done and self._is_job(document):
                self._objects.set_status(resource, stored, pods.succeeded(document, now=stamp()))
            return
        if self.frozen or at > self._clock() or not self._capacity.is_ready(place):
            return
        del self._ready_at[key]
        self._counter += 1
        address = f"10.244.{self._counter >> 8 & 255}.{self._counter & 255}"
        self._objects.set_status(resource, stored, pods.running(document, is_ready=True, address=address, now=stamp()))

    def _is_job(self, document: Document) -> bool:
        return any(owner["kind"] == "Job" for owner in document["metadata"].get("ownerReferences") or ())

    def _report(self, kind: str, document: Document, mark: str, wanted: int) -> None:
        key = key_of(document)
        stored = self._store.get(kind, *key)
        if stored is None:
            return
        family = self._pods_of.get(document["metadata"]["uid"], ())
        all_pods = [found.document for pod_key in family if (found := self._store.get(POD, *pod_key))]
        current = [pod for pod in all_pods if pod["metadata"]["labels"].get(pods.HASH) == mark]
        counts = status.PodCounts(
            wanted=wanted,
            total=len(all_pods),
            current=len(current),
            current_ready=sum(map(pods.is_ready, current)),
            ready=sum(map(pods.is_ready, all_pods)),
            succeeded=sum(pods.phase(pod) == "Succeeded" for pod in all_pods),
        )
        made = _REPORTS[kind](stored.document, counts, now=stamp())
        self._objects.set_status(self._resources[kind], stored, made)


def _note(book: dict[str, set[Any]], uid: str, entry: Any, gone: bool) -> None:
    """Add an entry under a uid, or remove it. Empty sets are removed."""
    entries = book.setdefault(uid, set())
    (entries.discard if gone else entries.add)(entry)
    if not entries:
        del book[uid]


def _holds(document: Document | None) -> str:
    """Return the node whose capacity a pod uses; "": none."""
    if document is None or pods.phase(document) in ("Succeeded", "Failed"):
        return ""
    return str(document["spec"].get("nodeName", ""))


def _service(document: Document) -> Document | None:
    if document["spec"].get("type") != "LoadBalancer":
        return None
    number = int(document["metadata"]["uid"][:4], 16)
    return {"loadBalancer": {"ingress": [{"ip": f"192.0.2.{number % 254 + 1}"}]}}


def _ingress(document: Document) -> Document:
    number = int(document["metadata"]["uid"][:4], 16)
    return {"loadBalancer": {"ingress": [{"ip": f"198.51.100.{number % 254 + 1}"}]}}


def _claim(document: Document) -> Document:
    spec = document["spec"]
    asked = (spec.get("resources") or {}).get("requests") or {}
    return {"phase": "Bound", "accessModes": spec.get("accessModes", []), "capacity": asked}


def _definition(document: Document) -> Document:
    return status_of(document, taken_name="", now=datetime.now(UTC))


# Kinds that get their final status at once.
_FULFILLED: dict[str, Callable[[Document], Document | None]] = {
    "Service": _service,
    "networking.k8s.io/Ingress": _ingress,
    "PersistentVolumeClaim": _claim,
    DEFINITIONS: _definition,
}

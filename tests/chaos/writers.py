"""The writers: clients that write through the API, one object at a time, and note what became of every write."""

from __future__ import annotations

import random
import threading
from typing import Any

from tests.chaos.ledger import Ledger, Outcome, Write
from tests.chaos.site import PATHS, UNSENT, Answer, Site

WRITERS = 3
MAPS, DEPLOYMENTS = 12, 4  # objects of each writer
DELETES = 0.08  # of the writes
PAUSE = (0.05, 0.3)  # seconds between two writes of a writer
MARK = "chaos.example.io/write"
APPLY = "application/apply-patch+yaml"
POLICY: dict[str, Any] = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "one-copy"},
    "spec": {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]},
    },
}


class Writers:
    """Threads that write until `stop`, each to objects of its own."""

    def __init__(self, site: Site, ledger: Ledger, *, seed: int) -> None:
        self.site = site
        self.ledger = ledger
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(number, random.Random(f"writer {number} {seed}")))
            for number in range(WRITERS)
        ]

    def start(self) -> None:
        for one in self._threads:
            one.start()

    def stop(self) -> None:
        self._stopping.set()
        for one in self._threads:
            one.join()

    def _write(self, number: int, chance: random.Random) -> None:
        names = [("ConfigMap", f"m{number}-{place}") for place in range(MAPS)]
        names += [("Deployment", f"d{number}-{place}") for place in range(DEPLOYMENTS)]
        count = 0
        while not self._stopping.wait(chance.uniform(*PAUSE)):
            kind, name = chance.choice(names)
            count += 1
            path, mark = f"{PATHS[kind]}/{name}", f"{number}-{count}"
            if chance.random() < DELETES:
                answer = self.site.ask("DELETE", path)
                self._note(Write(id=mark, kind=kind, name=name, verb="delete", outcome=outcome(answer)), answer)
            else:
                query = "?fieldManager=chaos&force=true"
                answer = self.site.ask("PATCH", path + query, manifest(kind, name, mark), type=APPLY)
                self._note(Write(id=mark, kind=kind, name=name, verb="apply", outcome=outcome(answer)), answer)

    def _note(self, write: Write, answer: Answer) -> None:
        if write.outcome == "acknowledged" and write.verb == "apply":
            write.version = int(answer.document["metadata"]["resourceVersion"])
        self.ledger.write(write)


def outcome(answer: Answer) -> Outcome:
    """Return what a client knows of its write: a 5xx or no answer to what was sent leaves open whether it was done."""
    if 200 <= answer.status < 300:
        return "acknowledged"
    return "refused" if 400 <= answer.status < 500 or answer.status == UNSENT else "unknown"


def manifest(kind: str, name: str, mark: str) -> dict[str, Any]:
    """Return an object that carries the id of the write."""
    metadata: dict[str, Any] = {"name": name, "annotations": {MARK: mark}}
    if kind == "ConfigMap":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"write": mark}}
    pod = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "nginx", "env": [{"name": "WRITE", "value": mark}]}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}

"""A stand-in for the interpreter webhook of Karmada's example, which the suite expects for the kind Workload.

It answers all operations as that example documents: the template of pods names the dependencies, `spec.paused` is what
the member has, a Workload is healthy when all its replicas are ready, and only ready replicas are kept of a status.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.apps.tls_server import TlsServer

Document = dict[str, Any]

OPERATIONS = (
    *("InterpretReplica", "ReviseReplica", "Retain", "AggregateStatus"),
    *("InterpretDependency", "InterpretHealth", "InterpretStatus"),
)


@contextmanager
def interpreter_webhook() -> Iterator[Document]:
    """Serve the webhook for the time of the block, and yield the configuration that names it."""
    with TlsServer() as server:
        server.respond(response)
        bundle = base64.b64encode(server.certificate).decode()
        rule = {
            "operations": list(OPERATIONS),
            "apiGroups": ["workload.example.io"],
            "apiVersions": ["v1alpha1"],
            "kinds": ["Workload"],
        }
        webhook = {
            "name": "workloads.example.com",
            "rules": [rule],
            "clientConfig": {"url": f"{server.url}interpreter-workload", "caBundle": bundle},
            "interpreterContextVersions": ["v1alpha1"],
            "timeoutSeconds": 3,
        }
        yield {
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "examples"},
            "webhooks": [webhook],
        }


def response(request: Document) -> Document:
    """Return the response to a request of a ResourceInterpreterContext."""
    workload = request["object"]
    spec, ready = workload.get("spec") or {}, (workload.get("status") or {}).get("readyReplicas", 0)
    found: Document
    match request["operation"]:
        case "InterpretReplica":
            found = {"replicas": spec.get("replicas", 0)}
        case "ReviseReplica":
            found = _patch("/spec/replicas", request.get("replicas", 0))
        case "Retain":
            found = _patch("/spec/paused", (request["observedObject"].get("spec") or {}).get("paused", False))
        case "AggregateStatus":
            statuses = [item.get("status") or {} for item in request.get("aggregatedStatus") or ()]
            total = sum(status.get("readyReplicas", 0) for status in statuses)
            found = _patch("/status", {**(workload.get("status") or {}), "readyReplicas": total})
        case "InterpretDependency":
            found = {"dependencies": list(_dependencies(workload))}
        case "InterpretHealth":
            found = {"healthy": ready == spec.get("replicas")}
        case "InterpretStatus":
            found = {"rawStatus": {"readyReplicas": ready}}
        case other:
            return {"uid": request["uid"], "successful": False, "status": {"message": f"wrong operation {other}"}}
    return {"uid": request["uid"], "successful": True, **found}


def _patch(path: str, value: Any) -> Document:
    """Return the fields of a response that set a value. JSON Patch adds a field, or replaces the one that is there."""
    operations = [{"op": "add", "path": path, "value": value}]
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


def _dependencies(workload: Document) -> Iterator[Document]:
    """Yield the ConfigMaps and Secrets that containers read their environment from."""
    metadata, template = workload["metadata"], (workload.get("spec") or {}).get("template") or {}
    for container in (template.get("spec") or {}).get("containers") or ():
        for source in container.get("envFrom") or ():
            for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
                if field in source:
                    yield {
                        "apiVersion": "v1",
                        "kind": kind,
                        "namespace": metadata["namespace"],
                        "name": source[field]["name"],
                    }

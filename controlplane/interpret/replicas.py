"""How many replicas an object requests, and how that number is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.interpret import requirements
from controlplane.interpret.interpreter import Demand, Document


def of_workload(doc: Document) -> Demand:
    """Return the demand of a Deployment, StatefulSet or ReplicaSet: spec.replicas, 1 if it is not set."""
    spec = _spec(doc)
    return Demand(_count(spec, "replicas", 1), requirements.of_pod(_pod(spec)))


def of_job(doc: Document) -> Demand:
    """Return the demand of a Job: its parallelism, limited to its completions."""
    spec = _spec(doc)
    parallelism = _count(spec, "parallelism", 1)
    completions = spec.get("completions")
    replicas = parallelism if completions is None else min(parallelism, int(completions))
    return Demand(replicas, requirements.of_pod(_pod(spec)))


def of_pod(doc: Document) -> Demand:
    return Demand(1, requirements.of_pod(_spec(doc)))


def with_replicas(doc: Document, replicas: int) -> Document:
    return with_spec(doc, replicas=replicas)


def with_parallelism(doc: Document, replicas: int) -> Document:
    return with_spec(doc, parallelism=replicas)


def with_spec(doc: Document, **fields: Any) -> Document:
    """Return the document with these fields of its spec set. All other parts are shared with the original."""
    return {**doc, "spec": {**_spec(doc), **fields}}


def _spec(doc: Mapping[str, Any]) -> dict[str, Any]:
    spec = doc.get("spec")
    return spec if isinstance(spec, dict) else {}


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    template = spec.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    return pod if isinstance(pod, dict) else {}


def _count(spec: Mapping[str, Any], field: str, default: int) -> int:
    value = spec.get(field)
    return default if value is None else int(value)

"""How many replicas an object asks for, and the object with another number (semantics 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.interpret import requirements
from controlplane.interpret.interpreter import Demand, Document


def of_workload(doc: Document) -> Demand:
    """Deployments, StatefulSets, ReplicaSets: spec.replicas, one where it is not set."""
    spec = _spec(doc)
    return Demand(_count(spec, "replicas", 1), requirements.of_pod(_pod(spec)))


def of_job(doc: Document) -> Demand:
    """Jobs: as many pods as run at once, never more than there are completions left to do."""
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
    """Return the document with fields of its spec set; everything else is shared."""
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

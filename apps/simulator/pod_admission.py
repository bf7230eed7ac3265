"""Admission of new Pods that depends on other objects: service accounts, priority classes and LimitRanges."""

from __future__ import annotations

from typing import Any

from apps.simulator.pod_defaults import PRIORITIES, limited
from apps.simulator.store import Store
from controlplane.apimachinery.errors import Forbidden

Document = dict[str, Any]

_CLASS = "scheduling.k8s.io/PriorityClass"


def admitted(document: Document, store: Store) -> Document:
    """Return a new Pod with its priority and the defaults of the LimitRanges in its namespace.

    Raises Forbidden if its service account or priority class does not exist, or if its priority differs from that of
    its class. The service account `default` exists in every namespace.
    """
    metadata, spec = document["metadata"], document.get("spec") or {}
    namespace = metadata.get("namespace", "")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    if account != "default" and store.get("ServiceAccount", namespace, account) is None:
        raise _refused(metadata, f'error looking up service account {namespace}/{account}: "{account}" not found')
    priority = _priority(document, store)
    if spec.get("priority") not in (None, priority):
        detail = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        raise _refused(metadata, f"{detail}; priority admission controller computed {priority}")
    made = {**document, "spec": {**spec, "priority": priority}}
    return limited(made, [stored.document for stored in store.all("LimitRange", namespace)])


def _priority(document: Document, store: Store) -> int:
    name = (document.get("spec") or {}).get("priorityClassName")
    if not name:
        return 0
    if name in PRIORITIES:
        return PRIORITIES[name]
    found = store.get(_CLASS, "", name)
    if found is None:
        raise _refused(document["metadata"], f"no PriorityClass with name {name} was found")
    return int(found.document.get("value", 0))


def _refused(metadata: Document, why: str) -> Forbidden:
    return Forbidden(f'pods "{metadata["name"]}" is forbidden: {why}')

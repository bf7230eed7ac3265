"""Supporting objects: an object without pods stays on a cluster while objects that need it (its dependents) run there.

Pods that still run on the old cluster need their Service and ConfigMap there, until pods on the new cluster are ready
[graceful-timeout]. Only objects without pods wait. Each kind waits only for kinds that come earlier in this order, so
that no two objects wait for each other: workloads with pods; Service, HorizontalPodAutoscaler, NetworkPolicy,
PodDisruptionBudget; Ingress; ConfigMap, Secret, ServiceAccount, PersistentVolumeClaim. A CustomResourceDefinition waits
for all objects of its kind, because a member deletes these objects together with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import DIRECTLY
from controlplane.kinds.template import Template
from controlplane.kinds.template.companions_index import label_value, object_value, pod_labels
from controlplane.kinds.template.pods import object_at
from controlplane.propagation.bindings import binding_ref, template_ref
from controlplane.wire.definition import KEY as DEFINITION

# Kinds that pods refer to by name.
NAMED: Final = frozenset({"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"})
# Kinds that select pods, with the field of the selector in their spec.
SELECTING: Final[dict[str, str]] = {
    "networking.k8s.io/NetworkPolicy": "podSelector",
    "policy/PodDisruptionBudget": "selector",
}
SERVICE, INGRESS, SCALER = "Service", "networking.k8s.io/Ingress", "autoscaling/HorizontalPodAutoscaler"
# All kinds that may wait for dependents.
KINDS: Final = NAMED | SELECTING.keys() | {SERVICE, INGRESS, SCALER, DEFINITION}


class DependentsQuery(NamedTuple):
    """How to find the dependents of an object.

    `named`: by reference. `value`: by this value of the index `companions`, restricted by `selector`. `kind`: all
    objects of this kind.
    """

    named: tuple[Ref, ...] = ()
    value: str = ""
    selector: LabelSelector | None = None
    kind: str = ""


def may_wait_for_dependents(binding: Binding) -> bool:
    """Test whether a binding leaves a cluster gracefully, and its kind may have dependents there."""
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks or template_ref(binding).kind not in KINDS:
        return False
    return any(task.purge_mode != DIRECTLY for task in tasks)


def dependents_query(template: Template) -> DependentsQuery:
    """Return how to find the dependents of an object without pods."""
    namespace, kind, spec = template.metadata.namespace, template.ref.kind, template.spec
    if kind in NAMED:
        return DependentsQuery(value=object_value(kind, namespace, template.metadata.name))
    if kind == SERVICE:
        pairs = object_at(spec, "selector")
        return _selector_query(namespace, LabelSelector(match_labels=pairs)) if pairs else DependentsQuery()
    if kind in SELECTING:
        return _selector_query(namespace, _selector(spec.get(SELECTING[kind])))
    if kind == INGRESS:
        return DependentsQuery(tuple(Ref(SERVICE, namespace, name) for name in sorted(set(_backend_services(spec)))))
    if kind == SCALER:
        return _scale_target(namespace, object_at(spec, "scaleTargetRef"))
    if kind == DEFINITION:
        return DependentsQuery(kind=f"{spec.get('group', '')}/{object_at(spec, 'names').get('kind', '')}")
    return DependentsQuery()


def _scale_target(namespace: str, target: Mapping[str, Any]) -> DependentsQuery:
    """Return the workload that an autoscaler scales. A target that waits itself is left out."""
    name = target.get("name")
    kind = kind_key(str(target.get("apiVersion", "")), str(target.get("kind", "")))
    return (
        DependentsQuery((Ref(kind, namespace, name),))
        if isinstance(name, str) and name and kind not in KINDS
        else DependentsQuery()
    )


def _selector_query(namespace: str, selector: LabelSelector | None) -> DependentsQuery:
    if selector is None:
        return DependentsQuery()
    pair = min(selector.match_labels.items(), default=("", ""))
    return DependentsQuery(value=label_value(namespace, *pair), selector=selector)


def _selector(value: Any) -> LabelSelector | None:
    """Return the selector of an object; None if it is invalid, so that it selects nothing."""
    try:
        return msgspec.convert({} if value is None else value, LabelSelector)
    except msgspec.ValidationError:
        return None


def _backend_services(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the Services that an Ingress routes to."""
    backends = [object_at(spec, "defaultBackend")]
    for rule in spec.get("rules") or ():
        backends += [object_at(path, "backend") for path in object_at(rule, "http").get("paths") or ()]
    for backend in backends:
        name = object_at(backend, "service").get("name")
        if isinstance(name, str) and name:
            yield name


def select_dependents(query: DependentsQuery, found: Iterable[Template]) -> list[Ref]:
    """Return the dependents of an object: those named by the query, and those found that match its selector."""
    matching = [item.ref for item in found if query.selector is None or query.selector.matches(pod_labels(item))]
    return [*query.named, *matching]


def dependents_by_cluster(dependents: Iterable[Ref], bindings: Mapping[Ref, Binding]) -> dict[str, tuple[str, ...]]:
    """Return by cluster which dependents are placed there or have not left yet, as "<kind> <name>"."""
    found: dict[str, list[str]] = {}
    for ref in dependents:
        binding = bindings.get(binding_ref(ref))
        if binding is None or binding.metadata.deletion_timestamp is not None:
            continue
        for cluster in dict.fromkeys(binding.clusters_kept()):
            found.setdefault(cluster, []).append(f"{ref.kind.rpartition('/')[2]} {ref.name}")
    return {cluster: tuple(sorted(names)) for cluster, names in found.items()}


def clusters_with_kind(kind: str, on_members: Iterable[tuple[str, str, str]]) -> dict[str, tuple[str, ...]]:
    """Return by cluster that objects of a kind are there. `on_members`: (cluster, apiVersion, kind) of all Works."""
    group, _, name = kind.rpartition("/")
    there = (cluster for cluster, version, found in on_members if kind_key(version, found) == kind)
    return dict.fromkeys(there, (f"{name} of {group}",))

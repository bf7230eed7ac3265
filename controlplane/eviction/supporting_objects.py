"""Companions: what an object without pods is there for. While that runs on a cluster, the object stays there (D11).

A Service that is on the new cluster is of no use to pods that still start there, and its old cluster's pods serve
nobody without it. Only objects without pods wait, and each kind only for kinds that come before it here, so that no
two wait for each other: what runs pods; Service, HorizontalPodAutoscaler, NetworkPolicy, PodDisruptionBudget; Ingress;
ConfigMap, Secret, ServiceAccount, PersistentVolumeClaim. A CustomResourceDefinition waits for all objects of its kind:
a member from which it is taken deletes them, also those that have nowhere else to go.
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
from controlplane.kinds.template.companions_index import labelled, needing, pod_labels
from controlplane.kinds.template.pods import at
from controlplane.propagation.bindings import binding_ref, template_ref
from controlplane.wire.definition import KEY as DEFINITION

NAMED: Final = frozenset({"ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"})
SELECTING: Final[dict[str, str]] = {
    "networking.k8s.io/NetworkPolicy": "podSelector",
    "policy/PodDisruptionBudget": "selector",
}
SERVICE, INGRESS, SCALER = "Service", "networking.k8s.io/Ingress", "autoscaling/HorizontalPodAutoscaler"
KINDS: Final = NAMED | SELECTING.keys() | {SERVICE, INGRESS, SCALER, DEFINITION}


class DependentsQuery(NamedTuple):
    """How the companions of an object are found: those named, and those under a value of the index `companions`, of
    which a selector takes only some; or everything of a kind."""

    named: tuple[Ref, ...] = ()
    value: str = ""
    selector: LabelSelector | None = None
    kind: str = ""


def may_wait_for_dependents(binding: Binding) -> bool:
    """Test whether a binding leaves a cluster gracefully and is of a kind that may have companions there."""
    tasks = binding.spec.graceful_eviction_tasks
    if not tasks or template_ref(binding).kind not in KINDS:
        return False
    return any(task.purge_mode != DIRECTLY for task in tasks)


def dependents_query(template: Template) -> DependentsQuery:
    """Return how the companions of an object without pods are found."""
    namespace, kind, spec = template.metadata.namespace, template.ref.kind, template.spec
    if kind in NAMED:
        return DependentsQuery(value=needing(kind, namespace, template.metadata.name))
    if kind == SERVICE:
        pairs = at(spec, "selector")
        return _selector_query(namespace, LabelSelector(match_labels=pairs)) if pairs else DependentsQuery()
    if kind in SELECTING:
        return _selector_query(namespace, _selector(spec.get(SELECTING[kind])))
    if kind == INGRESS:
        return DependentsQuery(tuple(Ref(SERVICE, namespace, name) for name in sorted(set(_backend_services(spec)))))
    if kind == SCALER:
        return _scale_target(namespace, at(spec, "scaleTargetRef"))
    if kind == DEFINITION:
        return DependentsQuery(kind=f"{spec.get('group', '')}/{at(spec, 'names').get('kind', '')}")
    return DependentsQuery()


def _scale_target(namespace: str, target: Mapping[str, Any]) -> DependentsQuery:
    """Return what a scaler scales; what waits itself is nothing to wait for."""
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
    return DependentsQuery(value=labelled(namespace, *pair), selector=selector)


def _selector(said: Any) -> LabelSelector | None:
    """Return a selector as an object spells it; None where it is none, and chooses nothing."""
    try:
        return msgspec.convert({} if said is None else said, LabelSelector)
    except msgspec.ValidationError:
        return None


def _backend_services(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the Services an Ingress leads to."""
    backends = [at(spec, "defaultBackend")]
    for rule in spec.get("rules") or ():
        backends += [at(path, "backend") for path in at(rule, "http").get("paths") or ()]
    for backend in backends:
        name = at(backend, "service").get("name")
        if isinstance(name, str) and name:
            yield name


def select_dependents(asked: DependentsQuery, found: Iterable[Template]) -> list[Ref]:
    """Return the companions of an object: those it names and those of the found ones its selector takes."""
    taken = [one.ref for one in found if asked.selector is None or asked.selector.matches(pod_labels(one))]
    return [*asked.named, *taken]


def dependents_by_cluster(companions: Iterable[Ref], bindings: Mapping[Ref, Binding]) -> dict[str, tuple[str, ...]]:
    """Return by cluster what of the companions is placed there or has not left yet, as "Kind name"."""
    found: dict[str, list[str]] = {}
    for ref in companions:
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

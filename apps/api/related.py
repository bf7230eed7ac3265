"""Links from the page of an object to the objects around it: policy, template, binding, Works, clusters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

from apps.api.places import Link, list_url, object_url
from controlplane import kinds
from controlplane.apimachinery import names
from controlplane.apimachinery.meta import Ref, kind_key
from controlplane.apimachinery.names import BINDING_ANNOTATION
from controlplane.kind import KINDS
from controlplane.kinds.work.applied_overrides import applied_overrides, shown
from controlplane.propagation.bindings import binding_ref
from controlplane.propagation.matching import CLAIM_LABELS

Document = dict[str, Any]

MAX_CLUSTERS: Final = 20  # links to clusters on a page
POLICY_LABELS: Final = {
    kinds.PROPAGATION_POLICY: names.PROPAGATION_POLICY_ID_LABEL,
    kinds.CLUSTER_PROPAGATION_POLICY: names.CLUSTER_PROPAGATION_POLICY_ID_LABEL,
}


def related(kind: str, document: Document) -> list[Link]:
    """Return the links of the page of an object. Makes no query."""
    metadata = document.get("metadata") or {}
    if kind in POLICY_LABELS:
        return list(_of_policy(kind, metadata))
    if kind in kinds.BINDINGS:
        return list(_of_binding(kind, document))
    if kind == kinds.WORK:
        return list(_of_work(metadata))
    if kind == kinds.CLUSTER:
        return list(_of_cluster(metadata.get("name", "")))
    return list(_of_template(kind, metadata))


def _of_policy(kind: str, metadata: Document) -> Iterator[Link]:
    label = POLICY_LABELS[kind]
    if identity := (metadata.get("labels") or {}).get(label):
        chosen = {"labelSelector": f"{label}={identity}"}
        namespace = metadata.get("namespace", "")
        yield Link("Bindings", list_url(KINDS[kinds.RESOURCE_BINDING].resource, namespace=namespace, **chosen))
        if kind == kinds.CLUSTER_PROPAGATION_POLICY:
            text, resource = "ClusterResourceBindings", KINDS[kinds.CLUSTER_RESOURCE_BINDING].resource
            yield Link(text, list_url(resource, **chosen))


def _of_binding(kind: str, document: Document) -> Iterator[Link]:
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    resource = spec.get("resource") or {}
    template = Ref(
        kind_key(resource.get("apiVersion", ""), resource.get("kind", "")),
        resource.get("namespace", ""),
        resource.get("name", ""),
    )
    if url := object_url(template):
        yield Link(f"{resource.get('kind', '')} {template.name}", url)
    yield from _policy_of(metadata.get("annotations") or {})
    label = names.RESOURCE_BINDING_ID_LABEL if metadata.get("namespace") else names.CLUSTER_RESOURCE_BINDING_ID_LABEL
    if identity := (metadata.get("labels") or {}).get(label):
        yield Link("Works", list_url(KINDS[kinds.WORK].resource, labelSelector=f"{label}={identity}"))
    own = object_url(Ref(kind, metadata.get("namespace", ""), metadata.get("name", "")))
    yield Link("Why it is placed there", f"{own}/explain?format=text")
    yield Link("Readiness", f"{own}/readiness")
    for target in (spec.get("clusters") or [])[:MAX_CLUSTERS]:
        yield Link(f"Cluster {target.get('name', '')}", object_url(Ref(kinds.CLUSTER, "", target.get("name", ""))))


def _of_work(metadata: Document) -> Iterator[Link]:
    if named := (metadata.get("annotations") or {}).get(BINDING_ANNOTATION):
        binding = Ref.parse(named) if ":" in named else None
        if binding is not None and (url := object_url(binding)):
            yield Link(f"Binding {binding.name}", url)
    yield from _overrides_of(metadata.get("annotations") or {})
    namespace = metadata.get("namespace", "")
    if names.is_execution_namespace(namespace):
        cluster = names.cluster_of_execution_namespace(namespace)
        yield Link(f"Cluster {cluster}", object_url(Ref(kinds.CLUSTER, "", cluster)))


def _overrides_of(annotations: Document) -> Iterator[Link]:
    """Yield links to the override policies that were applied to a Work."""
    for policy in applied_overrides(annotations):
        yield Link(shown(policy), object_url(policy))


def _of_cluster(name: str) -> Iterator[Link]:
    yield Link("Works", list_url(KINDS[kinds.WORK].resource, namespace=names.execution_namespace(name)))
    yield Link("Bindings placed here, with their readiness", f"/readiness?{urlencode({'cluster': name})}")


def _of_template(kind: str, metadata: Document) -> Iterator[Link]:
    """Yield links to the binding and the policy of a template that a policy has claimed."""
    if any(label in (metadata.get("labels") or {}) for label in CLAIM_LABELS):
        binding = binding_ref(Ref(kind, metadata.get("namespace", ""), metadata.get("name", "")))
        yield Link(f"Binding {binding.name}", object_url(binding))
        yield from _policy_of(metadata.get("annotations") or {})


def _policy_of(annotations: Document) -> Iterator[Link]:
    """Yield the link to the policy that the annotations of a binding or a template name."""
    if name := annotations.get(names.PROPAGATION_POLICY_NAME_ANNOTATION):
        namespace = annotations.get(names.PROPAGATION_POLICY_NAMESPACE_ANNOTATION, "")
        yield Link(f"PropagationPolicy {name}", object_url(Ref(kinds.PROPAGATION_POLICY, namespace, name)))
    if name := annotations.get(names.CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION):
        yield Link(f"ClusterPropagationPolicy {name}", object_url(Ref(kinds.CLUSTER_PROPAGATION_POLICY, "", name)))

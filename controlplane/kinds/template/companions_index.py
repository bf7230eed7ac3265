"""The index `companions`: finds the workloads and Ingresses that need an object without pods, such as a ConfigMap.

Kinds with pods and Ingress have this index. `eviction.supporting_objects` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.kinds.template import Template, pods

INGRESS: Final = "Ingress"


def object_value(kind: str, namespace: str, name: str) -> str:
    """Return the index value of workloads that name a ConfigMap, Secret, ServiceAccount or PersistentVolumeClaim."""
    return f"{kind}/{namespace}/{name}"


def label_value(namespace: str, key: str = "", value: str = "") -> str:
    """Return the index value of workloads in a namespace whose pods have a label; without a key: of all workloads."""
    return f"{namespace}?{key}={value}" if key else f"{namespace}?"


def companion_keys(template: Template) -> list[str]:
    """Return the index values of a template: the labels of its pods, and the objects it names."""
    namespace = template.metadata.namespace
    if not namespace:
        return []
    if template.kind == INGRESS:
        return sorted({object_value("Secret", namespace, name) for name in _certificates(template.content)})
    if template.kind not in pods.KINDS_WITH_PODS:
        return []
    template_ = pod_template(template)
    labels = (label_value(namespace, *pair) for pair in pod_labels(template).items())
    named = (
        object_value(kind, namespace, name) for kind, name in pods.referenced_objects(pods.object_at(template_, "spec"))
    )
    return sorted({label_value(namespace), *labels, *named})


def pod_template(template: Template) -> Mapping[str, Any]:
    """Return the pod template of a workload; for a Pod, its own content."""
    if template.kind == "Pod":
        return template.content
    return pods.template_of(template.kind, template.content)


def pod_labels(template: Template) -> dict[str, str]:
    """Return the labels of the pods of a workload."""
    return template.metadata.labels if template.kind == "Pod" else pods.labels_of(pod_template(template))


def _certificates(content: Mapping[str, Any]) -> Iterator[str]:
    listed = pods.object_at(content, "spec").get("tls")
    for item in listed if isinstance(listed, list) else ():
        name = item.get("secretName") if isinstance(item, dict) else None
        if isinstance(name, str) and name:
            yield name

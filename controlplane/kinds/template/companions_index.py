"""What runs pods, and what it needs beside it, as index values: so that an object without pods finds who needs it.

Index `companions` of the kinds with pods and of Ingress; asked by `eviction.supporting_objects`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.kinds.template import Template, pods

INGRESS: Final = "Ingress"


def object_value(kind: str, namespace: str, name: str) -> str:
    """Return the value all are found under that name an object: ConfigMap, Secret, ServiceAccount, claim."""
    return f"{kind}/{namespace}/{name}"


def label_value(namespace: str, key: str = "", value: str = "") -> str:
    """Return the value all are found under whose pods carry a label; without one: all that run pods there."""
    return f"{namespace}?{key}={value}" if key else f"{namespace}?"


def companion_keys(template: Template) -> list[str]:
    """Return what a template is found under: its pods' labels, and what it names."""
    namespace = template.metadata.namespace
    if not namespace:
        return []
    if template.kind == INGRESS:
        return sorted({object_value("Secret", namespace, name) for name in _certificates(template.content)})
    if template.kind not in pods.KINDS_WITH_PODS:
        return []
    found = pod_template(template)
    labels = (label_value(namespace, *pair) for pair in pod_labels(template).items())
    named = (
        object_value(kind, namespace, name) for kind, name in pods.referenced_objects(pods.object_at(found, "spec"))
    )
    return sorted({label_value(namespace), *labels, *named})


def pod_template(template: Template) -> Mapping[str, Any]:
    """Return the pod template of what runs pods; a Pod is its own."""
    if template.kind == "Pod":
        return template.content
    return pods.template_of(template.kind, template.content)


def pod_labels(template: Template) -> dict[str, str]:
    """Return the labels of the pods it runs."""
    return template.metadata.labels if template.kind == "Pod" else pods.labels_of(pod_template(template))


def _certificates(content: Mapping[str, Any]) -> Iterator[str]:
    listed = pods.object_at(content, "spec").get("tls")
    for one in listed if isinstance(listed, list) else ():
        name = one.get("secretName") if isinstance(one, dict) else None
        if isinstance(name, str) and name:
            yield name

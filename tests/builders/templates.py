"""Objects that users write and that Lifeboat propagates: Deployments, ConfigMaps, Secrets, definitions and others."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.kinds.template import Template
from tests.builders.objects import meta


def template(
    kind: str,
    name: str,
    *,
    version: str = "v1",
    namespace: str = "default",
    metadata: Mapping[str, Any] = {},
    **content: Any,
) -> Template:
    """Return an object. `version`: its apiVersion. `metadata`: fields of ObjectMeta. `content`: spec, data, …"""
    return Template(version, kind, meta(name, namespace, **metadata), content)


def deployment(name: str = "web", *, namespace: str = "default", replicas: int = 3, **metadata: Any) -> Template:
    """Return a Deployment whose pods request one cpu."""
    labels = {"app": name}
    container = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    about = {"labels": labels, **metadata}
    return template("Deployment", name, version="apps/v1", namespace=namespace, metadata=about, spec=spec)


def with_environment_from(one: Template, config: str) -> Template:
    """Return a Deployment whose first container takes its environment from a ConfigMap."""
    pod = one.spec["template"]["spec"]
    first, *others = pod["containers"]
    containers = [{**first, "envFrom": [{"configMapRef": {"name": config}}]}, *others]
    spec = {**one.spec, "template": {**one.spec["template"], "spec": {**pod, "containers": containers}}}
    return one.with_content({**one.content, "spec": spec}).with_meta(generation=1)


def config_map(name: str = "settings", *, namespace: str = "default", **metadata: Any) -> Template:
    """Return a ConfigMap."""
    return template("ConfigMap", name, namespace=namespace, metadata=metadata, data={"a": "b"})


def secret(
    name: str,
    values: Mapping[str, str] = {},
    *,
    namespace: str = "default",
    type_: str = "Opaque",
    **metadata: Any,
) -> Template:
    """Return a Secret with these values, in base64 as Kubernetes has them."""
    data = {key: b64encode(value.encode()).decode() for key, value in values.items()}
    return template("Secret", name, namespace=namespace, metadata=metadata, type=type_, data=data)


def namespace(name: str, **labels: str) -> Template:
    """Return a Namespace."""
    return template("Namespace", name, namespace="", metadata={"labels": labels})


def definition(
    kind: str = "Boat",
    plural: str = "boats",
    *,
    group: str = "example.io",
    versions: Sequence[Mapping[str, Any]] = (),
    **metadata: Any,
) -> Template:
    """Return the definition of a namespaced kind, of v1 without a schema of its fields if no versions are given."""
    only = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
        "versions": list(versions) or [only],
    }
    return template(
        "CustomResourceDefinition",
        f"{plural}.{group}",
        version="apiextensions.k8s.io/v1",
        namespace="",
        metadata=metadata,
        spec=spec,
    )

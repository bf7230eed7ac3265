"""Objects of the namespace shop with as little as a store or a page needs: no conditions, no placement."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.kinds.binding import Binding, ObjectReference, ResourceBindingSpec, TargetCluster
from controlplane.kinds.cluster import Cluster, ClusterSpec, Taint
from controlplane.kinds.template import Template
from tests.builders import objects, templates
from tests.builders.objects import START


def meta(name: str, namespace: str = "shop", **fields: Any) -> ObjectMeta:
    """Return the metadata of a new object."""
    return objects.meta(name, namespace, **fields)


def binding(name: str, *clusters: str, replicas: int = 2, namespace: str = "shop", **metadata: Any) -> Binding:
    """Return a binding of the Deployment of that name, placed on clusters."""
    spec = ResourceBindingSpec(
        resource=ObjectReference("apps/v1", "Deployment", name, "shop"),
        replicas=replicas,
        clusters=tuple(TargetCluster(one, replicas) for one in clusters),
    )
    return objects.bound(spec, name=name, namespace=namespace, **metadata)


def cluster(name: str, *effects: str, **metadata: Any) -> Cluster:
    """Return a cluster of the region eu with a taint per effect, and without a status."""
    taints = tuple(Taint("example.io/failed", effect, time_added=START) for effect in effects)
    spec = ClusterSpec(region="eu", taints=taints)
    return Cluster("cluster.karmada.io/v1alpha1", "Cluster", meta(name, "", **metadata), spec)


def template(
    name: str, content: dict[str, Any] | None = None, kind: str = "ConfigMap", namespace: str = "shop", **metadata: Any
) -> Template:
    """Return a core/v1 object of a kind without a type of its own."""
    content = content or {"data": {"key": "value"}}
    return templates.template(kind, name, namespace=namespace, metadata=metadata, **content)

"""Template: the type of all kinds without a type of their own. The content of an object stays as the user wrote it."""

from __future__ import annotations

from typing import Any

import msgspec

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.meta import Object, ObjectMeta
from controlplane.wire import definition

NAMESPACE = "Namespace"
SECRET = "Secret"
SERVICE_ACCOUNT = "ServiceAccount"
CONFIG_MAP = "ConfigMap"
CRON_JOB = "CronJob"
LEASE = "coordination.k8s.io/Lease"
DEFINITION = definition.KEY
NEVER_PROPAGATED = frozenset({NAMESPACE, "Node", "Endpoints", LEASE, "discovery.k8s.io/EndpointSlice"})
"""Kinds that policies do not propagate: each member's own controllers make their objects."""
COMPANIONS = (
    *("Pod", "ReplicationController", "apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet"),
    *("batch/Job", "batch/CronJob", "networking.k8s.io/Ingress"),
)
"""Kinds whose objects may need an object without pods, such as a ConfigMap (index `companions`)."""


class Template(Object, frozen=True):
    """An object of such a kind. `content` has all fields except apiVersion, kind, metadata and status."""

    content: dict[str, Any] = {}
    status: dict[str, Any] = {}

    def unfold(self) -> dict[str, Any]:
        """Return the whole document, with typed metadata, for the encoder."""
        doc = {"apiVersion": self.api_version, "kind": self.kind, "metadata": self.metadata, **self.content}
        if self.status or self.kind == CRON_JOB:
            doc["status"] = self.status  # Argo CD judges a CronJob without a status as one that nothing has seen yet
        return doc

    @classmethod
    def fold(cls, doc: dict[str, Any]) -> Template:
        """Return the object of a decoded document. Raises msgspec.ValidationError for invalid metadata."""
        content = dict(doc)
        return cls(
            api_version=content.pop("apiVersion", ""),
            kind=content.pop("kind", ""),
            metadata=msgspec.convert(content.pop("metadata", {}), ObjectMeta),
            status=content.pop("status", None) or {},
            content=content,
        )

    @property
    def spec(self) -> dict[str, Any]:
        spec = self.content.get("spec")
        return spec if isinstance(spec, dict) else {}

    def document(self) -> dict[str, Any]:
        """Return the whole document as plain JSON values, for interpreters."""
        plain: dict[str, Any] = msgspec.to_builtins(self.unfold())
        return plain

    def has_other_content_than(self, other: Template) -> bool:
        """Test whether the content of an earlier or later state of this object differs."""
        return not same(self.content, other.content)

    def with_content(self, content: dict[str, Any]) -> Template:
        """Return the object with another content. As in Kubernetes, its generation is raised if its spec changed."""
        if same(content, self.content):
            return self
        changed = msgspec.structs.replace(self, content=content)
        if same(content.get("spec"), self.content.get("spec")):
            return changed
        return changed.with_meta(generation=self.metadata.generation + 1)

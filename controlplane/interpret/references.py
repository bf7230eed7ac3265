"""The objects that an object needs in the same cluster: ConfigMaps, Secrets, ServiceAccounts, claims, Services."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controlplane.apimachinery.names import derived_service_name
from controlplane.interpret.interpreter import Dependency, Document
from controlplane.kinds.template.pods import object_at, referenced_objects

_SERVICE_NAME_LABEL = "kubernetes.io/service-name"


def of_pods(*path: str) -> Callable[[Document], Sequence[Dependency]]:
    """Return the rule for kinds that have a pod spec at this path."""

    def dependencies(doc: Document) -> Sequence[Dependency]:
        return _dependencies(doc, object_at(doc, *path))

    return dependencies


def of_stateful_set(doc: Document) -> Sequence[Dependency]:
    """Return what the pods need, without the claims that the StatefulSet creates from its volumeClaimTemplates."""
    own = {
        object_at(claim, "metadata").get("name") for claim in object_at(doc, "spec").get("volumeClaimTemplates") or ()
    }
    found = _dependencies(doc, object_at(doc, "spec", "template", "spec"))
    return [
        dependency for dependency in found if dependency.kind != "PersistentVolumeClaim" or dependency.name not in own
    ]


def of_ingress(doc: Document) -> Sequence[Dependency]:
    """Return the TLS Secret of each entry of spec.tls, in order. A Secret that is named twice is returned twice."""
    names = [entry.get("secretName") for entry in object_at(doc, "spec").get("tls") or ()]
    return [Dependency("v1", "Secret", _namespace(doc), name) for name in names if name]


def of_service_import(doc: Document) -> Sequence[Dependency]:
    """Return the derived Service, and the EndpointSlices of this Service."""
    service, namespace = derived_service_name(object_at(doc, "metadata").get("name", "")), _namespace(doc)
    selector = {"matchLabels": {_SERVICE_NAME_LABEL: service}}
    return [
        Dependency("v1", "Service", namespace, service),
        Dependency("discovery.k8s.io/v1", "EndpointSlice", namespace, "", selector),
    ]


def _dependencies(doc: Document, pod: Document) -> list[Dependency]:
    namespace = _namespace(doc)
    return [Dependency("v1", kind, namespace, name) for kind, name in referenced_objects(pod)]


def _namespace(doc: Document) -> str:
    return str(object_at(doc, "metadata").get("namespace", ""))

"""What an object needs beside it to work: configuration, secrets, accounts, claims (semantics 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controlplane.apimachinery.names import derived_service_name
from controlplane.interpret.interpreter import Dependency, Document
from controlplane.kinds.template.pods import at, needs

_SERVICE_NAME_LABEL = "kubernetes.io/service-name"


def of_pods(*path: str) -> Callable[[Document], Sequence[Dependency]]:
    """Return the rule for kinds that hold a pod spec at a path."""

    def dependencies(doc: Document) -> Sequence[Dependency]:
        return _dependencies(doc, at(doc, *path))

    return dependencies


def of_stateful_set(doc: Document) -> Sequence[Dependency]:
    """As its pods, without the claims it makes itself."""
    own = {at(one, "metadata").get("name") for one in at(doc, "spec").get("volumeClaimTemplates") or ()}
    found = _dependencies(doc, at(doc, "spec", "template", "spec"))
    return [one for one in found if one.kind != "PersistentVolumeClaim" or one.name not in own]


def of_ingress(doc: Document) -> Sequence[Dependency]:
    """The Secret of each of its hosts, in their order; one that serves several is there as often."""
    names = [one.get("secretName") for one in at(doc, "spec").get("tls") or ()]
    return [Dependency("v1", "Secret", _namespace(doc), name) for name in names if name]


def of_service_import(doc: Document) -> Sequence[Dependency]:
    """The Service it stands for, and the slices that say where that one is served."""
    service, namespace = derived_service_name(at(doc, "metadata").get("name", "")), _namespace(doc)
    selector = {"matchLabels": {_SERVICE_NAME_LABEL: service}}
    return [
        Dependency("v1", "Service", namespace, service),
        Dependency("discovery.k8s.io/v1", "EndpointSlice", namespace, "", selector),
    ]


def _dependencies(doc: Document, pod: Document) -> list[Dependency]:
    namespace = _namespace(doc)
    return [Dependency("v1", kind, namespace, name) for kind, name in needs(pod)]


def _namespace(doc: Document) -> str:
    return str(at(doc, "metadata").get("namespace", ""))

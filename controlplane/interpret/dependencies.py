"""What an object needs beside it to work: configuration, secrets, accounts, claims (semantics 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.interpret.interpreter import Dependency, Document
from controlplane.names import derived_service_name

# Where volumes of each type name a Secret.
_VOLUME_SECRETS: dict[str, tuple[str, ...]] = {
    "azureFile": ("secretName",),
    "cephfs": ("secretRef", "name"),
    "cinder": ("secretRef", "name"),
    "csi": ("nodePublishSecretRef", "name"),
    "flexVolume": ("secretRef", "name"),
    "iscsi": ("secretRef", "name"),
    "rbd": ("secretRef", "name"),
    "scaleIO": ("secretRef", "name"),
    "secret": ("secretName",),
    "storageos": ("secretRef", "name"),
}
_SERVICE_NAME_LABEL = "kubernetes.io/service-name"


def of_pods(*path: str) -> Callable[[Document], Sequence[Dependency]]:
    """Return the rule for kinds that hold a pod spec at a path."""

    def dependencies(doc: Document) -> Sequence[Dependency]:
        return _dependencies(doc, _at(doc, path))

    return dependencies


def of_stateful_set(doc: Document) -> Sequence[Dependency]:
    """As its pods, without the claims it makes itself."""
    own = {_at(one, ("metadata",)).get("name") for one in _at(doc, ("spec",)).get("volumeClaimTemplates") or ()}
    found = _dependencies(doc, _at(doc, ("spec", "template", "spec")))
    return [one for one in found if one.kind != "PersistentVolumeClaim" or one.name not in own]


def of_ingress(doc: Document) -> Sequence[Dependency]:
    names = [one.get("secretName") for one in _at(doc, ("spec",)).get("tls") or ()]
    return _named("Secret", names, _namespace(doc))


def of_service_import(doc: Document) -> Sequence[Dependency]:
    """The Service it stands for, and the slices that say where that one is served."""
    service, namespace = derived_service_name(_at(doc, ("metadata",)).get("name", "")), _namespace(doc)
    selector = {"matchLabels": {_SERVICE_NAME_LABEL: service}}
    return [
        Dependency("v1", "Service", namespace, service),
        Dependency("discovery.k8s.io/v1", "EndpointSlice", namespace, "", selector),
    ]


def _dependencies(doc: Document, pod: Document) -> list[Dependency]:
    namespace, account = _namespace(doc), pod.get("serviceAccountName")
    claims = [(one.get("persistentVolumeClaim") or {}).get("claimName") for one in pod.get("volumes") or ()]
    return [
        *_named("ConfigMap", _config_maps(pod), namespace),
        *_named("Secret", _secrets(pod), namespace),
        *_named("ServiceAccount", [account] if account != "default" else [], namespace),
        *_named("PersistentVolumeClaim", claims, namespace),
    ]


def _config_maps(pod: Document) -> Iterator[Any]:
    for volume in pod.get("volumes") or ():
        yield (volume.get("configMap") or {}).get("name")
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield (source.get("configMap") or {}).get("name")
    yield from _referenced(pod, "configMapRef", "configMapKeyRef")


def _secrets(pod: Document) -> Iterator[Any]:
    for one in pod.get("imagePullSecrets") or ():
        yield one.get("name")
    for volume in pod.get("volumes") or ():
        for type_, path in _VOLUME_SECRETS.items():
            source: Any = volume.get(type_)
            for field in path:
                source = source.get(field) if isinstance(source, dict) else None
            yield source
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield (source.get("secret") or {}).get("name")
    yield from _referenced(pod, "secretRef", "secretKeyRef")


def _referenced(pod: Document, whole: str, key: str) -> Iterator[Any]:
    """Yield the names that the environment of containers refers to."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in pod.get(field) or ():
            for source in container.get("envFrom") or ():
                yield (source.get(whole) or {}).get("name")
            for variable in container.get("env") or ():
                yield ((variable.get("valueFrom") or {}).get(key) or {}).get("name")


def _named(kind: str, names: Any, namespace: str) -> list[Dependency]:
    """Return dependencies by name, each once, in order."""
    return [Dependency("v1", kind, namespace, name) for name in sorted({name for name in names if name})]


def _at(doc: Mapping[str, Any], path: Sequence[str]) -> Document:
    found: Any = doc
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, dict) else {}


def _namespace(doc: Document) -> str:
    return str(_at(doc, ("metadata",)).get("namespace", ""))

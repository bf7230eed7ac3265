"""Pod templates in objects: their position, their labels, and the objects that their pods need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# The path at which a volume of each type names a Secret.
_VOLUME_SECRETS: Final[dict[str, tuple[str, ...]]] = {
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

_TEMPLATE: Final = ("spec", "template")
_TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "Deployment": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "ReplicationController": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "Pod": (),
}
"""The path of the pod template in objects of each kind. A Pod is its own template."""

KINDS_WITH_PODS: Final = frozenset(_TEMPLATES)


def template_of(kind: str, doc: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the pod template of a document, with metadata and spec; empty if its kind has no pods."""
    path = _TEMPLATES.get(kind)
    return {} if path is None else object_at(doc, *path)


def labels_of(template: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that the pods of a template have."""
    labels = object_at(template, "metadata", "labels")
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def referenced_objects(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the objects that a pod spec needs, as (kind, name), each once.

    They are ordered by kind (ConfigMap, Secret, ServiceAccount, PersistentVolumeClaim), then by name.
    """
    account = pod.get("serviceAccountName")
    claims = [object_at(volume, "persistentVolumeClaim").get("claimName") for volume in _listed(pod, "volumes")]
    named = (
        ("ConfigMap", _config_maps(pod)),
        ("Secret", _secrets(pod)),
        ("ServiceAccount", [account] if account != "default" else []),
        ("PersistentVolumeClaim", claims),
    )
    return [
        (kind, name)
        for kind, names in named
        for name in sorted({name for name in names if name and isinstance(name, str)})
    ]


def _config_maps(pod: Mapping[str, Any]) -> Iterator[Any]:
    for volume in _listed(pod, "volumes"):
        yield object_at(volume, "configMap").get("name")
        for source in _listed(object_at(volume, "projected"), "sources"):
            yield object_at(source, "configMap").get("name")
    yield from _referenced(pod, "configMapRef", "configMapKeyRef")


def _secrets(pod: Mapping[str, Any]) -> Iterator[Any]:
    for reference in _listed(pod, "imagePullSecrets"):
        yield reference.get("name")
    for volume in _listed(pod, "volumes"):
        for type_, path in _VOLUME_SECRETS.items():
            source: Any = volume.get(type_)
            for field in path:
                source = source.get(field) if isinstance(source, dict) else None
            yield source
        for source in _listed(object_at(volume, "projected"), "sources"):
            yield object_at(source, "secret").get("name")
    yield from _referenced(pod, "secretRef", "secretKeyRef")


def _referenced(pod: Mapping[str, Any], whole: str, key: str) -> Iterator[Any]:
    """Yield the names of the objects that the environment variables of containers refer to."""
    for field in ("containers", "initContainers", "ephemeralContainers"):
        for container in _listed(pod, field):
            for source in _listed(container, "envFrom"):
                yield object_at(source, whole).get("name")
            for variable in _listed(container, "env"):
                yield object_at(variable, "valueFrom", key).get("name")


def object_at(doc: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the JSON object at a path of a document; empty: there is none."""
    value: Any = doc
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _listed(doc: Mapping[str, Any], field: str) -> list[dict[str, Any]]:
    """Return the JSON objects in the list of a field; empty: the field has no list."""
    listed = doc.get(field)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []

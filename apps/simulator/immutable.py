"""Fields that kube-apiserver does not let an update change, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.apimachinery import causes as words
from controlplane.apimachinery.errors import Cause

Document = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
VOLUME_SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)

# Paths of the fields that cannot be changed.
_FIXED: dict[str, tuple[str, ...]] = {
    "apps/Deployment": ("spec.selector",),
    "apps/ReplicaSet": ("spec.selector",),
    "apps/DaemonSet": ("spec.selector",),
    "batch/Job": ("spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex"),
    "PersistentVolume": tuple(f"spec.{source}" for source in VOLUME_SOURCES),
    "ResourceQuota": ("spec.scopes", "spec.scopeSelector"),
    "Secret": ("type",),
    f"{_RBAC}/RoleBinding": ("roleRef",),
    f"{_RBAC}/ClusterRoleBinding": ("roleRef",),
    "scheduling.k8s.io/PriorityClass": ("value", "preemptionPolicy"),
}

# Kinds of whose spec only these fields may be changed.
_FREE: dict[str, tuple[str, ...]] = {
    "apps/StatefulSet": (
        *("minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "replicas", "revisionHistoryLimit"),
        *("template", "updateStrategy"),
    ),
    "PersistentVolumeClaim": ("storageClassName", "volumeAttributesClassName"),
}


def causes(key: str, document: Document, old: Document) -> Iterator[Cause]:
    """Yield a cause for every change of an immutable field."""
    for path in _FIXED.get(key, ()):
        was, now = _at(old, path), _at(document, path)
        if was != now:
            yield words.immutable(path, now)
    if key in _FREE and _fixed_part(old, _FREE[key]) != _fixed_part(document, _FREE[key]):
        yield words.forbidden("spec", f"updates to fields other than {', '.join(_FREE[key])} are forbidden")
    special = _SPECIAL.get(key)
    if special is not None:
        yield from special(document, old)


def _at(document: Document, path: str) -> Any:
    inner: Any = document
    for part in path.split("."):
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner


def _fixed_part(document: Document, free: tuple[str, ...]) -> Document:
    return {name: value for name, value in (document.get("spec") or {}).items() if name not in free}


def _data(document: Document, old: Document) -> Iterator[Cause]:
    """Yield the causes for changed data of an immutable ConfigMap or Secret."""
    if not old.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if document.get(field) != old.get(field):
            yield words.forbidden(field, "field is immutable when `immutable` is set")


def _job(document: Document, old: Document) -> Iterator[Cause]:
    """Yield the causes for a Job. The template may change until a suspended Job starts, completions if indexed."""
    spec, was = document.get("spec") or {}, old.get("spec") or {}
    is_waiting = was.get("suspend") and not (old.get("status") or {}).get("startTime")
    if spec.get("template") != was.get("template") and not is_waiting:
        yield words.immutable("spec.template", spec.get("template"))
    if spec.get("completions") != was.get("completions") and was.get("completionMode") != "Indexed":
        yield words.immutable("spec.completions", spec.get("completions"))


def _service(document: Document, old: Document) -> Iterator[Cause]:
    """Yield the cause for a changed cluster IP, unless the type was or becomes ExternalName."""
    spec, was = document.get("spec") or {}, old.get("spec") or {}
    if "ExternalName" not in (spec.get("type"), was.get("type")) and was.get("clusterIP") != spec.get("clusterIP"):
        yield words.immutable("spec.clusterIPs[0]", spec.get("clusterIP"))


def _pod(document: Document, old: Document) -> Iterator[Cause]:
    """Yield the cause for a Pod. Only images, an earlier deadline and additional tolerations may be changed."""
    spec, was = document.get("spec") or {}, old.get("spec") or {}
    if _without_free(spec) != _without_free(was):
        yield words.forbidden("spec", "pod updates may not change fields other than images, deadline and tolerations")
    deadline, before = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if before is not None and (deadline is None or deadline > before):
        yield words.invalid("spec.activeDeadlineSeconds", deadline, f"must be less than or equal to {before}")
    if not all(toleration in (spec.get("tolerations") or ()) for toleration in was.get("tolerations") or ()):
        yield words.forbidden("spec.tolerations", "existing toleration can not be modified except its seconds")


def _without_free(spec: Document) -> Document:
    fixed = {name: value for name, value in spec.items() if name not in ("activeDeadlineSeconds", "tolerations")}
    for part in ("containers", "initContainers"):
        if part in fixed:
            fixed[part] = [{**container, "image": ""} for container in fixed[part]]
    return fixed


_SPECIAL = {"ConfigMap": _data, "Secret": _data, "batch/Job": _job, "Service": _service, "Pod": _pod}

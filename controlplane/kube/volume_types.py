"""Volumes of pods, and the claims and claim templates that they use."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.container_types import FILE_FIELD, RESOURCE_OF_CONTAINER, local_path
from controlplane.kube.rules import (
    Causes,
    Document,
    Type,
    dns_label,
    each_together,
    one_of,
    sign,
    subdomain,
)

_HOST_PATHS = (*("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),)
MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_MODE_WORDS = "must be a number between 0 and 0777 (octal), both inclusive"
_FILES = 420  # mode 0644


def file_mode(value: Any, at: str, out: Causes) -> None:
    """Append a cause if a number is no file mode."""
    if isinstance(value, int) and not 0 <= value <= 0o777:
        out.append(causes.invalid(at, value, _MODE_WORDS))


def _volume(value: Document, at: str, out: Causes) -> None:
    found = [name for name, source in value.items() if name != "name" and source is not None]
    if not found:
        out.append(causes.required(at, "must specify a volume type"))
    for name in found[1:]:
        out.append(causes.forbidden(f"{at}.{name}", "may not specify more than 1 volume type"))


def _filled_volume(value: Document) -> Document:
    return (
        value
        if any(source is not None for name, source in value.items() if name != "name")
        else {**value, "emptyDir": {}}
    )


def _named(field: str) -> Any:
    def whole(value: Document, at: str, out: Causes) -> None:
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))

    return whole


def _downward(value: Document, at: str, out: Causes) -> None:
    """Append the causes against the files of a downward API volume. Kubernetes does not number them."""
    for item in value.get("items") or ():
        _file_path(item.get("path"), f"{at}.path", out)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            if resource is not None:
                out.append(
                    causes.invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
                )
            elif not field.get("fieldPath"):
                out.append(causes.required(f"{at}.fieldRef.fieldPath"))
            else:
                FILE_FIELD(field["fieldPath"], f"{at}.fieldRef.fieldPath", out)
        elif resource is None:
            out.append(causes.required(at, "one of fieldRef and resourceFieldRef is required"))
        else:
            if not resource.get("containerName"):
                out.append(causes.required(f"{at}.resourceFieldRef.containerName"))
            elif not resource.get("resource"):
                out.append(causes.required(f"{at}.resourceFieldRef.resource"))
            else:
                RESOURCE_OF_CONTAINER(resource["resource"], f"{at}.resourceFieldRef.resource", out)
        file_mode(item.get("mode"), f"{at}.mode", out)


def _file_path(path: Any, at: str, out: Causes) -> None:
    if not path:
        out.append(causes.required(at))
    else:
        local_path(path, at, out)
        if path.startswith("..") and ".." not in path.split("/"):
            out.append(causes.invalid(at, path, "must not start with '..'"))


def _projected(value: Document, at: str, out: Causes) -> None:
    paths: set[Any] = set()
    for index, source in enumerate(value.get("sources") or ()):
        where = f"{at}.sources[{index}]"
        found = [name for name, inner in source.items() if inner is not None]
        for name in found[1:]:
            out.append(causes.forbidden(f"{where}.{name}", "may not specify more than 1 volume type"))
        token = source.get("serviceAccountToken")
        if token is not None:
            _token(token, where, at, out)
        for name in ("secret", "configMap"):
            for item in (source.get(name) or {}).get("items") or ():
                path = item.get("path")
                if path and path in paths:
                    out.append(causes.invalid(f"{where}.{name}.path", path, "conflicting duplicate paths"))
                paths.add(path)


def _token(token: Document, where: str, at: str, out: Causes) -> None:
    seconds = token.get("expirationSeconds")
    if isinstance(seconds, int) and seconds < 600:
        words = "may not specify a duration less than 10 minutes"
        out.append(causes.invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, words))
    if isinstance(seconds, int) and seconds > 1 << 32:
        words = "may not specify a duration larger than 2^32 seconds"
        out.append(causes.invalid(f"{where}.serviceAccountToken.expirationSeconds", seconds, words))
    _file_path(token.get("path"), f"{at}.path", out)


def _nfs(value: Document, at: str, out: Causes) -> None:
    for field in ("server", "path"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
    if not (value.get("path") or "").startswith("/"):
        out.append(causes.invalid(f"{at}.path", value.get("path") or "", "must be an absolute path"))


def _host_path(value: Document, at: str, out: Causes) -> None:
    if not value.get("path"):
        out.append(causes.required(f"{at}.path"))
    elif ".." in value["path"].split("/"):
        out.append(causes.invalid(f"{at}.path", value["path"], "must not contain '..'"))
    if value.get("type") not in (None, *_HOST_PATHS):
        out.append(causes.unsupported(f"{at}.type", value["type"], _HOST_PATHS))


def driver_name(value: Any, at: str, out: Causes) -> None:
    """Append the causes against the name of a CSI driver."""
    if not value:
        out.append(causes.required(at))
        return
    if len(value) > 63:
        out.append(causes.too_long(at, 63))
    out.extend(causes.invalid(at, value, wrong) for wrong in selectors.dns1123_subdomain_errors(value.lower()))


def _csi(value: Document, at: str, out: Causes) -> None:
    driver_name(value.get("driver"), f"{at}.driver", out)


def claim_spec(value: Document, at: str, out: Causes) -> None:
    """Append the causes against the spec of a claim."""
    modes = value.get("accessModes") or ()
    if not modes:
        out.append(causes.required(f"{at}.accessModes", "at least 1 access mode is required"))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        words = "may not use ReadWriteOncePod with other access modes"
        out.append(causes.forbidden(f"{at}.accessModes", words))
    resources = value.get("resources") or {}
    amount = (resources.get("requests") or {}).get("storage")
    if amount is None:
        out.append(causes.required(f"{at}.resources[storage]"))
    elif sign(amount) <= 0:
        words = "must be greater than zero"
        out.append(causes.invalid(f"{at}.resources[storage]", amount, words))
    for field in ("dataSource", "dataSourceRef"):
        source = value.get(field)
        if source is not None:
            _source(source, f"{at}.{field}", out)
    known, ref = value.get("dataSource"), value.get("dataSourceRef")
    if (
        known
        and ref
        and any((known.get(field) or "") != (ref.get(field) or "") for field in ("apiGroup", "kind", "name"))
    ):
        out.append(causes.invalid(at, known, "must match dataSourceRef"))


def _source(value: Document, at: str, out: Causes) -> None:
    for field in ("name", "kind"):
        if not value.get(field):
            out.append(causes.required(f"{at}.{field}"))
    group = value.get("apiGroup")
    if not group and value.get("kind") != "PersistentVolumeClaim" and value.get("kind"):
        out.append(
            causes.invalid(at, value["kind"], "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
        )


def without_unknown_source(value: Document) -> Document:
    """Return the spec of a new claim without a dataSource that is neither a claim nor a snapshot, as in Kubernetes."""
    source = value.get("dataSource")
    if source and (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCES:
        return {name: inner for name, inner in value.items() if name != "dataSource"}
    return value


_DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


def _sourced(value: Document) -> Document:
    """Return a claim spec in which dataSource and dataSourceRef are the same, if only one of them is set."""
    source, ref = value.get("dataSource"), value.get("dataSourceRef")
    if source and not ref:
        return {**value, "dataSourceRef": source}
    if ref and not source and not ref.get("namespace"):
        return {**value, "dataSource": {name: part for name, part in ref.items() if name != "namespace"}}
    return value


_ITEMS = {"defaultMode": _FILES}
_MOUNT_KEY = Type(
    required=("key", "path"),
    fields={"mode": file_mode, "path": lambda value, at, out: _file_path(value, at, out) if value else None},
)

TYPES = {
    "core.v1.Volume": Type(required=("name",), fields={"name": dns_label}, whole=(_volume,), fill=_filled_volume),
    "core.v1.ConfigMapVolumeSource": Type(required=("name",), fields={"defaultMode": file_mode}, defaults=_ITEMS),
    "core.v1.SecretVolumeSource": Type(required=("secretName",), fields={"defaultMode": file_mode}, defaults=_ITEMS),
    "core.v1.ProjectedVolumeSource": Type(fields={"defaultMode": file_mode}, whole=(_projected,), defaults=_ITEMS),
    "core.v1.SecretProjection": Type(required=("name",)),
    "core.v1.ConfigMapProjection": Type(required=("name",)),
    "core.v1.ServiceAccountTokenProjection": Type(defaults={"expirationSeconds": 3600}),
    "core.v1.DownwardAPIVolumeSource": Type(fields={"defaultMode": file_mode}, whole=(_downward,), defaults=_ITEMS),
    "core.v1.DownwardAPIProjection": Type(whole=(_downward,)),
    "core.v1.DownwardAPIVolumeFile": Type(),
    "core.v1.KeyToPath": _MOUNT_KEY,
    "core.v1.HostPathVolumeSource": Type(whole=(_host_path,), fill=lambda value: {"type": "", **value}),
    "core.v1.NFSVolumeSource": Type(whole=(_nfs,)),
    "core.v1.PersistentVolumeClaimVolumeSource": Type(required=("claimName",)),
    "core.v1.CSIVolumeSource": Type(whole=(_csi,)),
    "core.v1.EphemeralVolumeSource": Type(required=("volumeClaimTemplate",)),
    "core.v1.PersistentVolumeClaimTemplate": Type(fill=lambda value: {"metadata": {}, **value}),
    "core.v1.PersistentVolumeClaimSpec": Type(
        fields={
            "accessModes": each_together(one_of(*MODES, empty=True)),
            "volumeMode": one_of("Block", "Filesystem", empty=True),
            "storageClassName": subdomain,
        },
        whole=(claim_spec,),
        fill=lambda value: {"volumeMode": "Filesystem", **_sourced(value)},
    ),
    "core.v1.VolumeResourceRequirements": Type(),
    "core.v1.TypedLocalObjectReference": Type(),
    "core.v1.TypedObjectReference": Type(),
}

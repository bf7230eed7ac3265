"""PersistentVolumes, StorageClasses, and what CSI drivers report."""

from __future__ import annotations

from typing import Any

from controlplane.apimachinery import causes, selectors
from controlplane.kube.container_types import resource_name
from controlplane.kube.rules import (
    Causes,
    Document,
    Type,
    each_together,
    labels,
    not_negative,
    one_of,
    qualified,
    sign,
    spelled,
    subdomain,
    unique,
)
from controlplane.kube.volume_types import MODES, driver_name

SOURCES = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_HANDLER = selectors.dns1123_label_errors


def _volume(value: Document, at: str, out: Causes) -> None:
    capacity = value.get("capacity") or {}
    if not value.get("accessModes"):
        out.append(causes.required(f"{at}.accessModes"))
    if not capacity:
        out.append(causes.required(f"{at}.capacity"))
    if set(capacity) != {"storage"}:
        out.append(causes.unsupported(f"{at}.capacity", capacity or None, ("storage",)))
    for name, amount in capacity.items():
        if sign(amount) <= 0:
            out.append(causes.invalid(f"{at}.capacity[{name}]", amount, "must be greater than zero"))
    found = [name for name in SOURCES if value.get(name) is not None]
    if not found:
        out.append(causes.required(at, "must specify a volume type"))
    for name in found[1:]:
        out.append(causes.forbidden(f"{at}.{name}", "may not specify more than 1 volume type"))
    path = (value.get("hostPath") or {}).get("path")
    if path == "/" and value.get("persistentVolumeReclaimPolicy") == "Recycle":
        out.append(
            causes.forbidden(f"{at}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
        )


def _csi(value: Document, at: str, out: Causes) -> None:
    driver_name(value.get("driver"), f"{at}.driver", out)
    if not value.get("volumeHandle"):
        out.append(causes.required(f"{at}.volumeHandle"))


def _node_affinity(value: Document, at: str, out: Causes) -> None:
    if value.get("required") is None:
        out.append(causes.required(f"{at}.required", "must specify required node constraints"))


def _topologies(value: Any, at: str, out: Causes) -> None:
    terms: list[Any] = []
    for index, term in enumerate(value):
        where, expressions = f"{at}[{index}].matchLabelExpressions", term.get("matchLabelExpressions") or []
        seen: dict[str, list[str]] = {}
        for number, expression in enumerate(expressions):
            _expression(expression, f"{where}[{number}]", seen, out)
        if seen in terms:
            out.append(causes.duplicate(where, ""))
        terms.append(seen)
        if not expressions:
            out.append(causes.duplicate(where, ""))


def _expression(value: Document, at: str, seen: dict[str, list[str]], out: Causes) -> None:
    key, values = value.get("key") or "", value.get("values") or []
    out.extend(causes.invalid(f"{at}.key", key, wrong) for wrong in selectors.label_key_errors(key))
    if not values:
        out.append(causes.required(f"{at}.values"))
    for index, text in enumerate(values):
        if text in values[:index]:
            out.append(causes.duplicate(f"{at}.values[{index}]", text))
    if key in seen:
        out.append(causes.duplicate(f"{at}.key", key))
    seen[key] = sorted(set(values))


def _provisioner(value: Any, at: str, out: Causes) -> None:
    qualified(value.lower(), at, out)


def _storage_class_filled(value: Document) -> Document:
    return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **value}


def _driver_filled(value: Document) -> Document:
    made = {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        **value,
    }
    if not made.get("volumeLifecycleModes"):
        made["volumeLifecycleModes"] = ["Persistent"]
    return made


def _tokens(value: Any, at: str, out: Causes) -> None:
    seen: set[Any] = set()
    for index, token in enumerate(value):
        audience, seconds = token.get("audience") or "", token.get("expirationSeconds")
        if audience in seen:
            out.append(causes.duplicate(f"{at}[{index}].audience", audience))
        seen.add(audience)
        if isinstance(seconds, int) and seconds < 600:
            words = "may not specify a duration less than 10 minutes"
            out.append(causes.invalid(f"{at}[{index}].expirationSeconds", seconds, words))


def _node_driver(value: Document, at: str, out: Causes) -> None:
    driver_name(value.get("name"), f"{at}.name", out)
    identity = value.get("nodeID") or ""
    if not identity:
        out.append(causes.required(f"{at}.nodeID"))
    if len(identity) > 256:
        out.append(causes.invalid(f"{at}.nodeID", identity, "must be 256 characters or less"))
    seen: set[Any] = set()
    for key in value.get("topologyKeys") or ():
        if key in seen:
            out.append(causes.duplicate(at, key))
        seen.add(key)
        if not key:
            out.append(causes.required(at))
        out.extend(causes.invalid(at, key, wrong) for wrong in selectors.label_key_errors(key))


def _capacity(value: Document, at: str, out: Causes) -> None:
    name = value.get("storageClassName") or ""
    wrongs = selectors.dns1123_subdomain_errors(name)
    out.extend(causes.invalid("storageClassName", name, wrong) for wrong in wrongs)
    for field in ("capacity", "maximumVolumeSize"):
        if value.get(field) is not None and sign(value[field]) < 0:
            out.append(causes.invalid(field, value[field], "must be greater than or equal to 0"))


def _attachment(value: Document, at: str, out: Causes) -> None:
    attacher, node = value.get("attacher"), value.get("nodeName") or ""
    driver_name(attacher, f"{at}.attacher", out)
    wrongs = selectors.dns1123_subdomain_errors(node)
    out.extend(causes.invalid(f"{at}.nodeName", node, wrong) for wrong in wrongs)
    source = value.get("source") or {}
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if name is None and inline is None:
        words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        out.append(causes.required(f"{at}.source", words))
    elif name is not None:
        where = f"{at}.source.persistentVolumeName"
        if not name:
            out.append(causes.required(where, "must specify non empty persistentVolumeName"))
        out.extend(causes.invalid(where, name, wrong) for wrong in selectors.dns1123_subdomain_errors(name))


def _unlike(value: Any, at: str, out: Causes) -> None:
    for index, toleration in enumerate(value):
        if toleration in value[:index]:
            out.append(causes.duplicate(f"{at}[{index}]", toleration))


def _overhead(value: Document, at: str, out: Causes) -> None:
    for name, amount in (value.get("podFixed") or {}).items():
        where = f"{at}.limits[{name}]"
        resource_name(name, where, out)
        if sign(amount) < 0:
            out.append(causes.invalid(where, amount, "must be greater than or equal to 0"))


TYPES = {
    "core.v1.PersistentVolumeSpec": Type(
        fields={
            "accessModes": each_together(one_of(*MODES, empty=True)),
            "persistentVolumeReclaimPolicy": one_of("Delete", "Recycle", "Retain"),
            "storageClassName": subdomain,
            "volumeMode": one_of("Block", "Filesystem", empty=True),
        },
        whole=(_volume,),
        defaults={"persistentVolumeReclaimPolicy": "Retain"},
        fill=lambda value: {"volumeMode": "Filesystem", **value},
    ),
    "core.v1.CSIPersistentVolumeSource": Type(whole=(_csi,)),
    "core.v1.VolumeNodeAffinity": Type(whole=(_node_affinity,)),
    "storage.v1.StorageClass": Type(
        required=("provisioner",),
        fields={
            "provisioner": _provisioner,
            "reclaimPolicy": one_of("Delete", "Retain"),
            "volumeBindingMode": one_of("Immediate", "WaitForFirstConsumer", empty=True),
            "allowedTopologies": _topologies,
        },
        fill=_storage_class_filled,
    ),
    "core.v1.TopologySelectorTerm": Type(),
    "core.v1.TopologySelectorLabelRequirement": Type(),
    "storage.v1.CSIDriverSpec": Type(
        fields={
            "fsGroupPolicy": one_of("File", "None", "ReadWriteOnceWithFSType", empty=True),
            "volumeLifecycleModes": each_together(one_of("Persistent", "Ephemeral", empty=True)),
            "tokenRequests": _tokens,
        },
        fill=_driver_filled,
    ),
    "storage.v1.TokenRequest": Type(),
    "storage.v1.CSINodeSpec": Type(fields={"drivers": unique("name")}),
    "storage.v1.CSINodeDriver": Type(whole=(_node_driver,)),
    "storage.v1.VolumeNodeResources": Type(fields={"count": not_negative}),
    "storage.v1.CSIStorageCapacity": Type(whole=(_capacity,)),
    "storage.v1.VolumeAttachmentSpec": Type(whole=(_attachment,)),
    "storage.v1.VolumeAttachmentSource": Type(),
    "node.v1.RuntimeClass": Type(required=("handler",), fields={"handler": spelled(_HANDLER)}),
    "node.v1.Overhead": Type(whole=(_overhead,)),
    "node.v1.Scheduling": Type(fields={"nodeSelector": labels, "tolerations": _unlike}),
    **dict.fromkeys(("storage.v1.CSIDriver", "storage.v1.CSINode", "storage.v1.VolumeAttachment"), Type()),
}

"""Fields that an edit must not change, by kind, and rules that compare an object with the stored one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.apimachinery import causes, equality
from controlplane.apimachinery.quantities import QuantityError, parse
from controlplane.kube.rules import Causes, Document, exceeds
from controlplane.kube.storage_types import SOURCES

Edit = Callable[[Document, Document, Causes], None]

_QUANTITIES = ("limits", "requests", "capacity", "hard")

# Paths of the fields that cannot be changed.
FIXED: dict[str, tuple[str, ...]] = {
    "apps/Deployment": ("spec.selector",),
    "apps/ReplicaSet": ("spec.selector",),
    "apps/DaemonSet": ("spec.selector",),
    "apps/ControllerRevision": ("data",),
    "batch/Job": (
        *("spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex"),
        *("spec.managedBy", "spec.successPolicy"),
    ),
    "Secret": ("type",),
    "scheduling.k8s.io/PriorityClass": ("preemptionPolicy",),
    "storage.k8s.io/StorageClass": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "storage.k8s.io/CSIDriver": ("spec.volumeLifecycleModes",),
    "storage.k8s.io/CSIStorageCapacity": ("nodeTopology", "storageClassName"),
    "storage.k8s.io/VolumeAttachment": ("spec",),
    "node.k8s.io/RuntimeClass": ("handler",),
    "networking.k8s.io/IngressClass": ("spec.controller",),
    "discovery.k8s.io/EndpointSlice": ("addressType",),
}

_STATEFUL = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


def causes_of_edit(key: str, document: Document, old: Document) -> Causes:
    """Return a cause for every change of a field that must not change. Both documents have their defaults."""
    out: Causes = []
    for path in FIXED.get(key, ()):
        was, now = _at(old, path), _at(document, path)
        if not same(was, now):
            out.append(causes.immutable(path, now))
    special = _SPECIAL.get(key)
    if special is not None:
        special(document, old, out)
    return out


def same(one: Any, other: Any) -> bool:
    """Test whether two values mean the same: a missing value equals an empty value, and 1000m equals 1."""
    return equality.same(_plain(one), _plain(other))


def _plain(value: Any, *, amounts: bool = False) -> Any:
    if isinstance(value, dict):
        made = {name: _plain(inner, amounts=amounts or name in _QUANTITIES) for name, inner in value.items()}
        return {name: inner for name, inner in made.items() if inner not in (None, "", [])} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    if amounts and isinstance(value, str | int):
        try:
            return str(parse(str(value)))
        except QuantityError:
            return value
    return value if value != "" else None


def _at(document: Document, path: str) -> Any:
    inner: Any = document
    for part in path.split("."):
        inner = inner.get(part) if isinstance(inner, dict) else None
    return inner


def _spec(document: Document) -> Document:
    return document.get("spec") or {}


def _stateful_set(document: Document, old: Document, out: Causes) -> None:
    now = {name: value for name, value in _spec(document).items() if name not in _STATEFUL}
    was = {name: value for name, value in _spec(old).items() if name not in _STATEFUL}
    if not same(now, was):
        *allowed, last = (f"'{name}'" for name in _STATEFUL)
        words = f"updates to statefulset spec for fields other than {', '.join(allowed)} and {last} are forbidden"
        out.append(causes.forbidden("spec", words))


def _frozen(document: Document, old: Document, out: Causes) -> None:
    """Append the causes for changed data of an immutable ConfigMap or Secret."""
    if not old.get("immutable"):
        return
    words = "field is immutable when `immutable` is set"
    if not document.get("immutable"):
        out.append(causes.forbidden("immutable", words))
    for field in ("data", "binaryData"):
        if not same(document.get(field), old.get(field)):
            out.append(causes.forbidden(field, words))


def _job(document: Document, old: Document, out: Causes) -> None:
    """Append the causes for a Job. The template may change until a suspended Job starts, completions if indexed."""
    spec, was = _spec(document), _spec(old)
    is_waiting = was.get("suspend") and not (old.get("status") or {}).get("startTime")
    if not is_waiting and not same(spec.get("template"), was.get("template")):
        out.append(causes.immutable("spec.template", spec.get("template")))
    if spec.get("completions") != was.get("completions"):
        if was.get("completionMode") != "Indexed":
            out.append(causes.immutable("spec.completions", spec.get("completions")))
        elif spec.get("completions") not in (None, spec.get("parallelism")):
            words = "can only be modified in tandem with spec.parallelism"
            out.append(causes.invalid("spec.completions", spec.get("completions"), words))


def _service(document: Document, old: Document, out: Causes) -> None:
    spec, was = _spec(document), _spec(old)
    kinds = (spec.get("type"), was.get("type"))
    if "ExternalName" not in kinds and was.get("clusterIP") and spec.get("clusterIP") != was["clusterIP"]:
        out.append(causes.immutable("spec.clusterIPs[0]", spec.get("clusterIP") or ""))
    balanced = kinds == ("LoadBalancer", "LoadBalancer")
    if balanced and spec.get("loadBalancerClass") != was.get("loadBalancerClass"):
        out.append(causes.invalid("spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set"))


def _claim(document: Document, old: Document, out: Causes) -> None:
    spec, was = _spec(document), _spec(old)
    bound = (old.get("status") or {}).get("phase") == "Bound"
    fixed = _claimed(spec, bound)
    if was.get("storageClassName") is None:  # the class of a claim may be chosen later
        fixed.pop("storageClassName", None)
    if not same(fixed, _claimed(was, bound)):
        allowed = "resources.requests and volumeAttributesClassName for bound claims"
        out.append(causes.forbidden("spec", f"spec is immutable after creation except {allowed}"))
    if spec.get("volumeMode") != was.get("volumeMode"):
        out.append(causes.immutable("volumeMode", spec.get("volumeMode")))
    before, after = _storage(was), _storage(spec)
    if before is not None and (after is None or exceeds(before, after)):
        words = "field can not be less than status.capacity"
        out.append(causes.forbidden("spec.resources.requests.storage", words))


def _claimed(spec: Document, bound: bool) -> Document:
    """Return what never changes in the spec of a claim. The requests of a bound claim may grow."""
    made = {name: value for name, value in spec.items() if name not in ("volumeName", "volumeAttributesClassName")}
    given = spec.get("resources") or {}
    resources = {name: value for name, value in given.items() if name != "requests" or not bound}
    return {**made, "resources": resources}


def _storage(spec: Document) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _volume(document: Document, old: Document, out: Causes) -> None:
    spec, was = _spec(document), _spec(old)
    if not same({name: spec.get(name) for name in SOURCES}, {name: was.get(name) for name in SOURCES}):
        out.append(
            causes.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
        )
    if spec.get("volumeMode") != was.get("volumeMode"):
        out.append(causes.immutable("volumeMode", spec.get("volumeMode")))
    if was.get("nodeAffinity") is not None and not same(spec.get("nodeAffinity"), was["nodeAffinity"]):
        words = "field is immutable, except for updating from beta label to GA"
        out.append(causes.invalid("nodeAffinity", spec.get("nodeAffinity"), words))


def _quota(document: Document, old: Document, out: Causes) -> None:
    scopes = _spec(document).get("scopes") or []
    if set(scopes) != set(_spec(old).get("scopes") or ()):
        out.append(causes.immutable("spec.scopes", scopes))


def _priority(document: Document, old: Document, out: Causes) -> None:
    if (document.get("value") or 0) != (old.get("value") or 0):
        out.append(causes.forbidden("value", "may not be changed in an update."))


def _driver(document: Document, old: Document, out: Causes) -> None:
    if _spec(document).get("attachRequired") != _spec(old).get("attachRequired"):
        out.append(causes.immutable("spec.attachedRequired", _spec(document).get("attachRequired")))


def _node(document: Document, old: Document, out: Causes) -> None:
    spec, was = _spec(document), _spec(old)
    if was.get("podCIDRs") and not same(spec.get("podCIDRs"), was["podCIDRs"]):
        words = 'node updates may not change podCIDR except from "" to valid'
        out.append(causes.forbidden("spec.podCIDRs", words))
    if was.get("providerID") and spec.get("providerID") != was["providerID"]:
        words = 'node updates may not change providerID except from "" to valid'
        out.append(causes.forbidden("spec.providerID", words))


def _csi_node(document: Document, old: Document, out: Causes) -> None:
    was = {driver.get("name"): driver for driver in _spec(old).get("drivers") or ()}
    for driver in _spec(document).get("drivers") or ():
        before = was.get(driver.get("name"))
        if before is not None and any(not same(driver.get(name), before.get(name)) for name in _OF_DRIVER):
            out.append(causes.immutable("spec.drivers", driver))


_OF_DRIVER = ("nodeID", "topologyKeys")
_GRACE = "(allow it to be set to 1 if it was previously negative)"
_MUTABLE_POD = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def _pod(document: Document, old: Document, out: Causes) -> None:
    """Append the causes for a Pod: only images, an earlier deadline and additional tolerations may change."""
    spec, was = _spec(document), _spec(old)
    for part in ("containers", "initContainers"):
        if len(spec.get(part) or ()) != len(was.get(part) or ()):
            out.append(causes.forbidden(f"spec.{part}", "pod updates may not add or remove containers"))
            return
        for index, container in enumerate(spec.get(part) or ()):
            if not container.get("image"):
                out.append(causes.required(f"spec.{part}[{index}].image"))
    _deadline(spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds"), out)
    if not _keeps_tolerations(spec, was):
        words = "existing toleration can not be modified except its tolerationSeconds"
        out.append(causes.forbidden("spec.tolerations", words))
    if not same(_fixed(spec), _fixed(was)):
        fields = ("containers[*].image", "initContainers[*].image", "activeDeadlineSeconds", "tolerations")
        listed = ",".join(f"`spec.{field}`" for field in fields)
        may = f"{listed} (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` {_GRACE}"
        out.append(causes.forbidden("spec", f"pod updates may not change fields other than {may}"))


def _deadline(now: Any, was: Any, out: Causes) -> None:
    at = "spec.activeDeadlineSeconds"
    if was is None:
        return
    if now is None:
        out.append(causes.invalid(at, now, "must not update from a positive integer to nil value"))
    elif now > was:
        out.append(causes.invalid(at, now, "must be less than or equal to previous value"))


def _keeps_tolerations(spec: Document, was: Document) -> bool:
    now = {_without_seconds(toleration) for toleration in spec.get("tolerations") or ()}
    return all(_without_seconds(toleration) in now for toleration in was.get("tolerations") or ())


def _without_seconds(toleration: Document) -> frozenset[tuple[str, Any]]:
    return frozenset((name, value) for name, value in toleration.items() if name != "tolerationSeconds" and value)


def _fixed(spec: Document) -> Document:
    made = {name: value for name, value in spec.items() if name not in _MUTABLE_POD}
    for part in ("containers", "initContainers"):
        if part in made:
            made[part] = [{**container, "image": ""} for container in made[part] or ()]
    return made


_SPECIAL: dict[str, Edit] = {
    "apps/StatefulSet": _stateful_set,
    "ConfigMap": _frozen,
    "Secret": _frozen,
    "batch/Job": _job,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "PersistentVolume": _volume,
    "scheduling.k8s.io/PriorityClass": _priority,
    "storage.k8s.io/CSIDriver": _driver,
    "storage.k8s.io/CSINode": _csi_node,
    "Node": _node,
    "ResourceQuota": _quota,
    "Pod": _pod,
}
